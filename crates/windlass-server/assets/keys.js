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

  // On a narrow screen the menu scrolls: show the current entry.
  const menu = document.querySelector(".menu");
  const here = menu?.querySelector("[aria-current]")?.getBoundingClientRect();
  if (here) menu.scrollLeft += here.left + here.width / 2 - menu.clientWidth / 2;

  const rows = () => [...document.querySelectorAll("main tbody tr")];
  const move = (by) => {
    const all = rows();
    if (all.length === 0) return;
    const at = all.findIndex((row) => row.contains(document.activeElement));
    const next = all[Math.min(Math.max(at + by, 0), all.length - 1)];
    next.querySelector("a[href]")?.focus();
  };

  let isGoing = false;
  document.addEventListener("keydown", (event) => {
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
