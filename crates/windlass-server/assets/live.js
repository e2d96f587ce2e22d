// Keeps a page fresh: hears that something happened, asks for the page again, and swaps the parts that changed. The browser
// parses what the server rendered; no text becomes markup here. Reading works without any of this.
(() => {
  "use strict";
  const $ = (selector, root = document) => [...root.querySelectorAll(selector)];

  // Asks for a page and hands over its document.
  const ask = (method, address, body, done, failed) => {
    const request = new XMLHttpRequest();
    request.open(method, address);
    request.responseType = "document";
    if (body !== null) request.setRequestHeader("Content-Type", "application/x-www-form-urlencoded");
    request.onload = () => done(request.response, request.responseURL, request.status);
    request.onerror = () => failed?.();
    request.send(body);
  };

  // Whether a field is other than the page had it; ticks in a list are kept apart.
  const isTouched = (field) => {
    if (field.matches("select")) {
      const first = Math.max([...field.options].findIndex((option) => option.defaultSelected), 0);
      return field.selectedIndex !== first;
    }
    if (field.matches("[type=checkbox]")) return field.name !== "id_selected" && field.checked !== field.defaultChecked;
    return field.value !== field.defaultValue;
  };

  // Whether somebody is typing or choosing in it, or has and not sent it yet.
  const isBusy = (part) => {
    const active = document.activeElement;
    const isTyping = part.contains(active) && active.matches("input:not([type=checkbox]), textarea, select");
    return isTyping || $("input:not([type=hidden]):not(#pick-all), textarea, select", part).some(isTouched);
  };

  // Replaces a part, keeping what the reader opened, ticked and scrolled to.
  const swap = (old, fresh) => {
    if (old.isEqualNode(fresh) || isBusy(old)) return;
    const opened = new Set($("details[open]", old).map((details) => details.id));
    const ticked = new Set($("input[type=checkbox]:checked", old).map((box) => box.value));
    const focused = old.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    const scrolled = $(".log, .graph, .scroll", old).map((box) =>
      [box.scrollTop, box.scrollLeft, box.scrollTop + box.clientHeight >= box.scrollHeight - 4]);
    const next = document.importNode(fresh, true);
    $("details", next).forEach((details) => { if (opened.has(details.id)) details.open = true; });
    $("input[name=id_selected]", next).forEach((box) => { box.checked = ticked.has(box.value); });
    old.replaceWith(next);
    $(".log, .graph, .scroll", next).forEach((box, place) => {
      const [top, left, atEnd] = scrolled[place] ?? [0, 0, box.matches(".log")];
      box.scrollTop = atEnd && box.matches(".log") ? box.scrollHeight : top;
      box.scrollLeft = left;
    });
    if (focused) $("a[href]", next).find((link) => link.getAttribute("href") === focused)?.focus();
    dress(next);
  };

  const take = (page) => {
    $("[data-fresh][id]").forEach((part) => {
      const fresh = page?.getElementById(part.id);
      if (fresh) swap(part, fresh);
    });
    // Parts that were not there before, such as a result: the page's own order says where they belong.
    const main = page?.getElementById("main");
    const missing = main && $("[data-fresh][id]", main).some((part) => !document.getElementById(part.id));
    if (missing && !isBusy(document.getElementById("main"))) whole(page);
  };

  const whole = (page) => {
    const main = page?.getElementById("main");
    if (!main) return;
    const next = document.importNode(main, true);
    document.getElementById("main").replaceWith(next);
    document.title = page.title;
    dress(next);
  };

  let isAsking = false;
  let isMissed = false;
  // Grows with every action: a page that was asked for before one shows what was before it.
  let acted = 0;
  const refresh = () => {
    if (document.hidden || isAsking) { isMissed = true; return; }
    isAsking = true;
    isMissed = false;
    const over = () => { isAsking = false; if (isMissed) setTimeout(refresh, 300); };
    const address = location.pathname + location.search;
    const before = acted;
    ask("GET", address, null, (page, from, status) => {
      if (before !== acted) isMissed = true;
      over();
      if (before !== acted) return;
      if (from && new URL(from).pathname === "/sign-in") location.reload();
      else if (status === 200) take(page);
    }, over);
  };

  const listen = () => {
    const address = document.body.dataset.live;
    const pulse = document.getElementById("pulse");
    if (!address || !pulse || !window.EventSource) return;
    const say = (state, word) => { pulse.className = `pulse ${state}`; pulse.firstElementChild.textContent = word; };
    let source = null;
    // A page that nobody sees listens to nothing: browsers allow few connections, and the server has better to do.
    const follow = () => {
      if (document.hidden) {
        source?.close();
        source = null;
        isMissed = true;
      } else if (!source) {
        source = new EventSource(address);
        source.addEventListener("ready", () => { say("on", "Live"); if (isMissed) refresh(); });
        source.addEventListener("change", refresh);
        source.onerror = () => { say("off", "Away"); isMissed = true; };
      }
    };
    follow();
    document.addEventListener("visibilitychange", follow);
    addEventListener("pagehide", () => source?.close());
    addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });
  };

  // Forms that act: sent without leaving the page, answered by the page as it is then.
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (!form.matches("[data-inline]")) return;
    if (form.dataset.ask && !window.confirm(form.dataset.ask)) { event.preventDefault(); return; }
    event.preventDefault();
    const fields = new URLSearchParams(new FormData(form, event.submitter));
    const buttons = $("button", form);
    buttons.forEach((button) => { button.disabled = true; });
    const again = () => buttons.forEach((button) => { button.disabled = false; });
    acted += 1;
    ask("POST", form.getAttribute("action"), fields, (page, from) => {
      acted += 1;
      again();
      const to = new URL(from);
      if (to.pathname === "/sign-in") { location.reload(); return; }
      document.activeElement?.blur();
      whole(page);
      if (to.pathname === location.pathname) return;
      const isPlace = to.pathname !== form.getAttribute("action");
      if (isPlace) history.pushState(null, "", to.pathname);
    }, again);
  });
  addEventListener("popstate", () => location.reload());

  // What only works with a script is hidden until there is one.
  const dress = (root) => {
    $("[data-copy], [data-copy-from], #pick-all", root).forEach((part) => { part.hidden = false; });
    count();
    if (root !== document) return;
    $(".log").forEach((log) => { log.scrollTop = log.scrollHeight; });
    // A wide graph begins where this job is.
    $(".graph").forEach((graph) => {
      const here = graph.querySelector(".here")?.getBoundingClientRect();
      if (here) graph.scrollLeft += Math.max(here.right + 12 - graph.getBoundingClientRect().right, 0);
    });
  };

  const count = () => {
    const picked = document.getElementById("picked");
    if (!picked) return;
    const number = $("input[name=id_selected]:checked").length;
    picked.textContent = number === 0 ? "None selected" : `${number} selected`;
  };

  document.addEventListener("change", (event) => {
    if (event.target.id === "pick-all") {
      $("input[name=id_selected]").forEach((box) => { box.checked = event.target.checked; });
    }
    count();
  });

  document.addEventListener("input", (event) => {
    if (event.target.id !== "p-value") return;
    const value = Number(event.target.value);
    const names = [[100, "critical"], [80, "high"], [50, "normal"], [1, "low"], [0, "bulk"]];
    const name = names.find(([from]) => value >= from)[1];
    $("[data-priority]").forEach((output) => { output.textContent = `${value}, ${name}`; });
  });

  document.addEventListener("click", (event) => {
    const button = event.target.closest?.("[data-copy], [data-copy-from]");
    if (!button) return;
    const from = document.getElementById(button.dataset.copyFrom ?? "");
    const said = (word) => { const was = button.textContent; button.textContent = word; setTimeout(() => { button.textContent = was; }, 1500); };
    navigator.clipboard?.writeText(button.dataset.copy ?? from?.textContent ?? "").then(() => said("Copied"), () => said("Not copied"));
  });

  dress(document);
  listen();
})();
