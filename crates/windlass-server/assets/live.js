// Keeps a page up to date: listens for changes, requests the page again, and patches the differences. The browser parses what
// the server rendered; no text becomes markup here. Pages can be read without this script.
(() => {
  "use strict";
  const $ = (selector, root = document) => [...root.querySelectorAll(selector)];
  const find = (id, root = document) => root?.getElementById(id) ?? null;
  const make = (name, properties) => Object.assign(document.createElement(name), properties);

  // Timeouts in milliseconds: for a page; for an action (which may affect thousands of jobs); for a silent stream (the server
  // sends something every 15 s); and for a lost connection before the page shows a notice.
  const [PAGE_MAX, ACTION_MAX, SILENCE_MAX, LOSS_SHOWN_AFTER] = [30000, 120000, 45000, 5000];

  // Requests a page and passes its document on; calls `failed` if there is no response.
  const ask = (method, address, body, done, failed, headers = {}) => {
    const request = new XMLHttpRequest();
    request.open(method, address);
    Object.entries(headers).forEach(([name, value]) => request.setRequestHeader(name, value));
    request.responseType = "document";
    request.timeout = body === null ? PAGE_MAX : ACTION_MAX;
    if (body !== null) request.setRequestHeader("Content-Type", "application/x-www-form-urlencoded");
    request.onload = () => done(request.response, new URL(request.responseURL), request.status, request.getResponseHeader("windlass-parts"));
    request.onerror = failed;
    request.onabort = failed;
    request.ontimeout = failed;
    request.send(body);
  };

  // The server's error message.
  const refusal = (page, status) => page?.querySelector("[data-error]")?.textContent ?? `the server responded with ${status}`;

  // ---- Patching the page ----

  // In use: ticked, hovered or focused. Rows then keep their positions.
  const isInHand = (rows) =>
    rows.closest("[data-steady]") !== null &&
    (rows.querySelector("input:checked") !== null || rows.matches(":hover") || rows.contains(document.activeElement));

  // Shows that rows were held back, and how to see them.
  const tellHeldBack = (number) => {
    let note = find("held-back");
    if (number === 0) { note?.remove(); return; }
    if (!note) {
      note = make("button", { id: "held-back", type: "button", className: "tiny" });
      note.dataset.keep = "";
      document.querySelector("[data-steady]")?.before(note);
    }
    const isTicked = document.querySelector("[data-steady] tbody input:checked") !== null;
    note.textContent = `${number} ${number === 1 ? "update" : "updates"} paused: ${isTicked ? "clear the selection and show" : "show"}`;
  };

  let isHeldBack = false;
  const take = (page, steady = isInHand) => {
    const main = find("main", page);
    if (!main) return;
    dress(main);
    const { heldBack: number, isPartial } = patch(find("main"), main, steady);
    isHeldBack = number > 0;
    tellHeldBack(number);
    document.title = page.title;
    document.body.dataset.live = page.body.dataset.live ?? "";
    // A restarted server requires another token, also for a form that is being filled in.
    const token = page.querySelector("input[name=token]")?.value;
    if (token) $("input[name=token]").forEach((field) => { field.value = token; });
    count();
    return isPartial;
  };

  const showHeldBack = () => {
    $("[data-steady] tbody input:checked, #pick-all").forEach((box) => { box.checked = false; });
    isForced = true;
    refresh();
  };

  // ---- Refreshing ----

  let isAsking = false;
  let isMissed = false;
  let isForced = false;
  // Digests of the parts of the page as the server sent them last; it leaves out those that did not change. Empty if the page
  // is not what it sent.
  let parts = "";
  // Increases with every action: a page requested before an action is outdated.
  let acted = 0;
  const refresh = () => {
    if (document.hidden || isAsking) { isMissed = true; return; }
    isAsking = true;
    isMissed = false;
    const before = acted;
    const over = () => { isAsking = false; if (isMissed) setTimeout(refresh, 300); };
    const known = isForced ? "" : parts;
    ask("GET", location.pathname + location.search, null, (page, from, status, now) => {
      if (before !== acted) isMissed = true;
      over();
      if (before !== acted) return;
      if (status === 401 || from.pathname === "/sign-in") { location.reload(); return; }
      if (status === 304) { renew(); return; }
      if (status !== 200) { grow(`Not refreshed: ${refusal(page, status)}`); return; }
      renew();
      const isPartial = take(page, isForced ? () => false : isInHand);
      parts = isPartial ? "" : now ?? "";
      isForced = false;
    }, over, { "Windlass-Parts": known, "If-None-Match": `"${known.split(" ")[0]}"` });
  };

  // Leaving a list shows the rows that were held back while it was in use.
  ["mouseout", "focusout", "change"].forEach((event) => document.addEventListener(event, () => {
    setTimeout(() => { if (isHeldBack && !$("[data-steady] tbody").some(isInHand)) { isHeldBack = false; refresh(); } });
  }));

  // ---- The connection ----

  let lostAt = null;
  let shown = null;
  const grow = (why) => {
    lostAt ??= new Date();
    const note = find("away");
    note.textContent = `${why} What you see is from ${lostAt.toLocaleTimeString([], { hour12: false })}.`;
    note.hidden = false;
    document.body.classList.add("old");
  };
  const renew = () => {
    clearTimeout(shown);
    lostAt = shown = null;
    find("away").hidden = true;
    document.body.classList.remove("old");
  };

  const listen = () => {
    const pulse = find("pulse");
    if (!document.body.dataset.live || !pulse || !window.EventSource) return;
    const say = (state, word) => { pulse.className = `pulse ${state}`; pulse.firstElementChild.textContent = word; };
    let [source, silence, again, tries] = [null, null, null, 0];
    const close = () => {
      source?.close();
      source = null;
      [silence, shown, again].forEach(clearTimeout);
      shown = null;
    };
    const lost = () => {
      isMissed = true;
      say("off", "Not live");
      lostAt ??= new Date();
      shown ??= setTimeout(() => grow("No connection to the server."), LOSS_SHOWN_AFTER);
    };
    // Browsers reconnect by themselves only after a broken connection, not after a response that is not a stream: a server
    // that is starting, a proxy without it, an expired session. Requesting the page then shows which.
    const comeBack = () => {
      source?.close();
      source = null;
      lost();
      clearTimeout(again);
      // With jitter, and less often the longer it lasts.
      again = setTimeout(() => { follow(); refresh(); }, Math.min(1000 * 2 ** tries, 15000) * (1 + Math.random()));
      tries += 1;
    };
    const received = () => {
      clearTimeout(silence);
      silence = setTimeout(comeBack, SILENCE_MAX);
    };
    // A hidden page does not listen: browsers allow few connections, and it saves load on the server.
    const follow = () => {
      if (document.hidden) {
        close();
        isMissed = true;
      } else if (!source) {
        source = new EventSource(document.body.dataset.live);
        source.addEventListener("ready", () => {
          tries = 0;
          say("on", "Live");
          received();
          if (isMissed) refresh();
        });
        source.addEventListener("change", () => { received(); refresh(); });
        source.onerror = () => { if (source?.readyState === EventSource.CLOSED) comeBack(); else lost(); };
      }
    };
    follow();
    document.addEventListener("visibilitychange", follow);
    addEventListener("pagehide", close);
    addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });
  };

  // ---- Actions ----

  // Shows why an action failed: in the form, which keeps its input, or at the top of the page if the form has no fields.
  const complain = (form, text) => {
    const note = make("p", { className: "banner bad complaint", textContent: text });
    note.dataset.keep = "";
    note.setAttribute("role", "alert");
    const hasFields = form.isConnected && form.querySelector("input:not([type=hidden]), textarea, select") !== null;
    if (hasFields) form.append(note);
    else find("said").replaceChildren(note);
  };

  // Action forms: sent without leaving the page; the response is the updated page.
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (!form.matches("[data-inline]")) return;
    event.preventDefault();
    if (form.dataset.ask && form.dataset.agreed === undefined) { askFirst(form, event.submitter); return; }
    delete form.dataset.agreed;
    const fields = new URLSearchParams(new FormData(form, event.submitter));
    const buttons = $("button", form);
    buttons.forEach((button) => { button.disabled = true; });
    $(".complaint").forEach((note) => note.remove());
    acted += 1;
    const over = () => {
      acted += 1;
      buttons.forEach((button) => { button.disabled = false; });
      // A disabled button loses its focus.
      if (document.activeElement === document.body) event.submitter?.focus({ preventScroll: true });
    };
    ask("POST", form.getAttribute("action"), fields, (page, to, status) => {
      over();
      if (status === 401 || to.pathname === "/sign-in") { location.reload(); return; }
      if (status !== 200) { complain(form, refusal(page, status)); return; }
      if (to.pathname !== location.pathname) {
        // A page that a form led to does not belong in the history.
        if (location.pathname === "/jobs/act") location.replace(to);
        else location.assign(to);
        return;
      }
      form.reset();
      // The input was sent: the form shows the result.
      if (form.contains(document.activeElement)) document.activeElement.blur();
      form.closest("[popover]")?.hidePopover?.();
      form.closest("details")?.removeAttribute("open");
      const near = form.closest("tr, li, section");
      take(page);
      parts = "";
      find("said").replaceChildren(...$("#said > *", page).map((said) => document.importNode(said, true)));
      dress(find("said"));
      // The button may have been replaced by its opposite; keep the keyboard focus there.
      const home = form.isConnected ? form : near;
      if (document.activeElement === document.body && home?.isConnected) home.querySelector("button")?.focus({ preventScroll: true });
    }, () => {
      over();
      complain(form, "The server did not respond. Check whether the action was done before you try again.");
    });
  });

  // The flash message is shown once: remove it from the address.
  const forget = () => {
    const address = new URL(location);
    if (!address.searchParams.has("done")) return;
    ["done", "n", "undo", "signature"].forEach((name) => address.searchParams.delete(name));
    history.replaceState(null, "", address);
  };

  // Elements that need a script are hidden without one.
  const dress = (root) => {
    $("[data-copy], [data-copy-from], [data-dismiss], #pick-all", root).forEach((part) => { part.hidden = false; });
    $(".chart[data-values]", root).forEach((chart) => {
      chart.tabIndex = 0;
      chart.setAttribute("role", "group");
      chart.setAttribute("aria-label", "Values: left and right arrow keys");
    });
  };

  const count = () => {
    const picked = find("picked");
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
    event.target.closest?.("form")?.querySelector(".complaint")?.remove();
    if (event.target.id !== "p-value") return;
    const value = Number(event.target.value);
    const names = [[100, "critical"], [80, "high"], [50, "normal"], [1, "low"], [0, "bulk"]];
    const name = names.find(([from]) => value >= from)[1];
    $("[data-priority]").forEach((output) => { output.textContent = `${value}, ${name}`; });
  });

  document.addEventListener("click", (event) => {
    if (event.target.id === "held-back") { showHeldBack(); return; }
    if (event.target.matches?.("[data-dismiss]")) { find("said").replaceChildren(); return; }
    const button = event.target.closest?.("[data-copy], [data-copy-from]");
    if (!button) return;
    const from = find(button.dataset.copyFrom ?? "");
    const said = (word) => { const was = button.textContent; button.textContent = word; setTimeout(() => { button.textContent = was; }, 1500); };
    navigator.clipboard?.writeText(button.dataset.copy ?? from?.textContent ?? "").then(() => said("Copied"), () => said("Not copied"));
  });

  dress(document);
  count();
  forget();
  $(".log").forEach((log) => { log.scrollTop = log.scrollHeight; });
  // Scroll a wide graph to this job.
  $(".graph").forEach((graph) => {
    const here = graph.querySelector(".here")?.getBoundingClientRect();
    if (here) graph.scrollLeft += Math.max(here.right + 12 - graph.getBoundingClientRect().right, 0);
  });
  listen();
})();
