// Keyboard shortcuts, and the switch between light and dark.
(() => {
  "use strict";
  const root = document.documentElement;
  const button = document.getElementById("theme");
  if (button) {
    button.hidden = false;
    button.addEventListener("click", () => {
      const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
      root.dataset.theme = isDark ? "light" : "dark";
      document.cookie = `windlass-theme=${root.dataset.theme}; path=/; max-age=31536000; samesite=strict`;
    });
  }

  // Times in UTC or in the browser's own zone. The server writes them, so that a refresh keeps them.
  const zone = document.getElementById("zone");
  const own = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (zone && (own && own !== "UTC" || zone.textContent !== "UTC")) {
    const isUtc = zone.textContent === "UTC";
    zone.setAttribute("aria-label", isUtc ? `Times are in UTC: show them in ${own}` : `Times are in ${zone.textContent}: show them in UTC`);
    zone.hidden = false;
    zone.addEventListener("click", () => {
      const chosen = isUtc ? encodeURIComponent(own) : "";
      document.cookie = `windlass-zone=${chosen}; path=/; max-age=${isUtc ? 31536000 : 0}; samesite=strict`;
      location.reload();
    });
  }

  // On a narrow screen the menu scrolls: show the current entry.
  const menu = document.querySelector(".menu");
  const here = menu?.querySelector("[aria-current]")?.getBoundingClientRect();
  if (here) menu.scrollLeft += here.left + here.width / 2 - menu.clientWidth / 2;

  // A click on a bar of a chart shows that time alone; the labels below the chart are links to its parts.
  document.addEventListener("click", (event) => {
    const zoom = event.target.closest?.("[data-zoom]");
    if (zoom) location.assign(zoom.dataset.zoom);
  });

  // A row leads where its first link does, which is the object that it is about.
  const leads = (row) => row.querySelector("td:nth-child(-n+2) > a[href]");
  document.addEventListener("pointerover", (event) => {
    const row = event.target.closest?.("table.list tbody tr");
    row?.classList.toggle("goes", leads(row) !== null);
  });
  document.addEventListener("click", (event) => {
    const row = event.target.closest?.("table.list tbody tr");
    if (!row || event.button !== 0 || event.target.closest("a, button, input, label, select, textarea, summary, .pick, [popover]")) return;
    if (!getSelection().isCollapsed) return;
    const link = leads(row)?.href;
    if (!link) return;
    if (event.ctrlKey || event.metaKey) open(link, "_blank"); else location.assign(link);
  });

  const rows = () => [...document.querySelectorAll("main tbody tr")];
  const move = (by) => {
    const all = rows();
    if (all.length === 0) return;
    const at = all.findIndex((row) => row.contains(document.activeElement));
    const next = all[Math.min(Math.max(at + by, 0), all.length - 1)];
    next.querySelector("a[href]")?.focus();
  };

  // Ctrl-K: the pages of the menu and what can be created, narrowed by what is typed; Enter searches jobs unless a page is chosen.
  const palette = document.getElementById("palette");
  const wanted = document.getElementById("palette-text");
  const places = () => {
    const links = [...document.querySelectorAll(".menu a"), ...document.querySelectorAll("main .title a.button")];
    return links.map((link) => [link.textContent.trim(), link.getAttribute("href")]);
  };
  const narrow = () => {
    const text = wanted.value.trim().toLowerCase();
    const found = places().filter(([name]) => name.toLowerCase().includes(text));
    palette.querySelector("ul").replaceChildren(...found.map(([name, href]) => {
      const row = document.createElement("li");
      const link = Object.assign(document.createElement("a"), { textContent: name });
      link.setAttribute("href", href);
      row.append(link);
      return row;
    }));
  };
  const openPalette = () => {
    wanted.value = "";
    narrow();
    palette.showModal();
    wanted.focus();
  };
  palette?.addEventListener("input", narrow);
  palette?.addEventListener("keydown", (event) => {
    const links = [wanted, ...palette.querySelectorAll("a")];
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    links[Math.min(Math.max(links.indexOf(document.activeElement) + by, 0), links.length - 1)].focus();
  });
  // The only page that matches what was typed is what was meant; anything else is searched for.
  palette?.querySelector("form").addEventListener("submit", (event) => {
    const links = palette.querySelectorAll("a");
    if (links.length === 1 && wanted.value.trim() !== "") { event.preventDefault(); location.assign(links[0].href); }
  });

  let isGoing = false;
  document.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key === "k" && palette) {
      event.preventDefault();
      if (!palette.open) openPalette();
      return;
    }
    const typing = event.target.matches?.("input:not([type=checkbox]), textarea, select");
    if (event.ctrlKey || event.metaKey || event.altKey || typing) {
      if (event.key === "Escape" && typing) event.target.blur();
      return;
    }
    const help = document.getElementById("help");
    if (isGoing) {
      isGoing = false;
      const link = document.querySelector(`.menu a[data-key="${CSS.escape(event.key)}"]`);
      if (link) { event.preventDefault(); link.click(); }
      return;
    }
    if (event.key === "/") { event.preventDefault(); document.getElementById("search")?.focus(); }
    else if (event.key === "?") help?.showModal();
    else if (event.key === "g") { isGoing = true; setTimeout(() => { isGoing = false; }, 1500); }
    else if (event.key === "j") move(1);
    else if (event.key === "k") move(-1);
    else if (event.key === "x") {
      const box = document.activeElement.closest?.("tr")?.querySelector("input[name=id_selected]");
      box?.click();
    }
  });
})();
