// Keeps a page fresh: hears that something happened, asks for the page again, and changes what differs. The browser parses what
// the server rendered; no text becomes markup here. Reading works without any of this.
(() => {
  "use strict";
  const $ = (selector, root = document) => [...root.querySelectorAll(selector)];
  const find = (id, root = document) => root?.getElementById(id) ?? null;
  const make = (name, properties) => Object.assign(document.createElement(name), properties);

  // How long a page may take, and an action (one may be on thousands of jobs); how long a stream may be silent (the server
  // says something every 15 s); and how long a connection may be lost before the page says so. In milliseconds.
  const [PAGE_MAX, ACTION_MAX, SILENCE_MAX, LOSS_SHOWN_AFTER] = [30000, 120000, 45000, 5000];

  // Asks for a page and hands over its document; `failed` if there is no answer.
  const ask = (method, address, body, done, failed) => {
    const request = new XMLHttpRequest();
    request.open(method, address);
    request.responseType = "document";
    request.timeout = body === null ? PAGE_MAX : ACTION_MAX;
    if (body !== null) request.setRequestHeader("Content-Type", "application/x-www-form-urlencoded");
    request.onload = () => done(request.response, new URL(request.responseURL), request.status);
    request.onerror = failed;
    request.onabort = failed;
    request.ontimeout = failed;
    request.send(body);
  };

  // Why the server refused, in its own words.
  const refusal = (page, status) => page?.querySelector("[data-error]")?.textContent ?? `the server answered ${status}`;

  // ---- What the page shows, made what the server shows now ----

  // Under somebody's hand: ticked, pointed at or focused. Rows then keep their places.
  const isInHand = (rows) =>
    rows.closest("[data-steady]") !== null &&
    (rows.querySelector("input:checked") !== null || rows.matches(":hover") || rows.contains(document.activeElement));

  // Says that rows were held back, and how to see them.
  const tellHeldBack = (number) => {
    let note = find("held-back");
    if (number === 0) { note?.remove(); return; }
    if (!note) {
      note = make("button", { id: "held-back", type: "button", className: "tiny" });
      note.dataset.keep = "";
      document.querySelector("[data-steady]")?.before(note);
    }
    const isTicked = document.querySelector("[data-steady] tbody input:checked") !== null;
    note.textContent = `${number} held back: ${isTicked ? "untick and show" : "show"}`;
  };

  let isHeldBack = false;
  const take = (page, steady = isInHand) => {
    const main = find("main", page);
    if (!main) return;
    dress(main);
    const number = patch(find("main"), main, steady);
    isHeldBack = number > 0;
    tellHeldBack(number);
    document.title = page.title;
    document.body.dataset.live = page.body.dataset.live ?? "";
    // A server that was started again wants another token, also of a form that is being filled in.
    const token = page.querySelector("input[name=token]")?.value;
    if (token) $("input[name=token]").forEach((field) => { field.value = token; });
    count();
  };

  const showHeldBack = () => {
    $("[data-steady] tbody input:checked, #pick-all").forEach((box) => { box.checked = false; });
    isForced = true;
    refresh();
  };

  // ---- Asking again ----

  let isAsking = false;
  let isMissed = false;
  let isForced = false;
  // Grows with every action: a page that was asked for before one shows what was before it.
  let acted = 0;
  const refresh = () => {
    if (document.hidden || isAsking) { isMissed = true; return; }
    isAsking = true;
    isMissed = false;
    const before = acted;
    const over = () => { isAsking = false; if (isMissed) setTimeout(refresh, 300); };
    ask("GET", location.pathname + location.search, null, (page, from, status) => {
      if (before !== acted) isMissed = true;
      over();
      if (before !== acted) return;
      if (status === 401 || from.pathname === "/sign-in") { location.reload(); return; }
      if (status !== 200) { grow(`Not refreshed: ${refusal(page, status)}`); return; }
      renew();
      take(page, isForced ? () => false : isInHand);
      isForced = false;
    }, over);
  };

  // Leaving a list shows what was held back while it was in hand.
  ["mouseout", "focusout", "change"].forEach((event) => document.addEventListener(event, () => {
    setTimeout(() => { if (isHeldBack && !$("[data-steady] tbody").some(isInHand)) { isHeldBack = false; refresh(); } });
  }));

  // ---- Whether what is shown is still so ----

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
    // Browsers come back by themselves only from a broken connection, not from an answer that is no stream: a server that
    // starts, a proxy without one, a session that is over. Asking for the page then tells which.
    const comeBack = () => {
      source?.close();
      source = null;
      lost();
      clearTimeout(again);
      // Not all at once, and less often the longer it lasts.
      again = setTimeout(() => { follow(); refresh(); }, Math.min(1000 * 2 ** tries, 15000) * (1 + Math.random()));
      tries += 1;
    };
    const heard = () => {
      clearTimeout(silence);
      silence = setTimeout(comeBack, SILENCE_MAX);
    };
    // A page that nobody sees listens to nothing: browsers allow few connections, and the server has better to do.
    const follow = () => {
      if (document.hidden) {
        close();
        isMissed = true;
      } else if (!source) {
        source = new EventSource(document.body.dataset.live);
        source.addEventListener("ready", () => {
          tries = 0;
          say("on", "Live");
          heard();
          if (isMissed) refresh();
        });
        source.addEventListener("change", () => { heard(); refresh(); });
        source.onerror = () => { if (source?.readyState === EventSource.CLOSED) comeBack(); else lost(); };
      }
    };
    follow();
    document.addEventListener("visibilitychange", follow);
    addEventListener("pagehide", close);
    addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });
  };

  // ---- Acting ----

  // Says why something was not done: in the form, where what was typed still stands, or above all if there is nothing to type.
  const complain = (form, text) => {
    const note = make("p", { className: "banner bad complaint", textContent: text });
    note.dataset.keep = "";
    note.setAttribute("role", "alert");
    const hasFields = form.isConnected && form.querySelector("input:not([type=hidden]), textarea, select") !== null;
    if (hasFields) form.append(note);
    else find("said").replaceChildren(note);
  };

  // Forms that act: sent without leaving the page, answered by the page as it is then.
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (!form.matches("[data-inline]")) return;
    event.preventDefault();
    if (form.dataset.ask && !window.confirm(form.dataset.ask)) return;
    const fields = new URLSearchParams(new FormData(form, event.submitter));
    const buttons = $("button", form);
    buttons.forEach((button) => { button.disabled = true; });
    $(".complaint").forEach((note) => note.remove());
    acted += 1;
    const over = () => {
      acted += 1;
      buttons.forEach((button) => { button.disabled = false; });
      // A button that is disabled loses its focus.
      if (document.activeElement === document.body) event.submitter?.focus({ preventScroll: true });
    };
    ask("POST", form.getAttribute("action"), fields, (page, to, status) => {
      over();
      if (status === 401 || to.pathname === "/sign-in") { location.reload(); return; }
      if (status !== 200) { complain(form, refusal(page, status)); return; }
      if (to.pathname !== location.pathname) {
        // A page that a form led to is nothing to come back to.
        if (location.pathname === "/jobs/act") location.replace(to);
        else location.assign(to);
        return;
      }
      form.reset();
      // What was sent is no longer being typed: the form shows what came of it.
      if (form.contains(document.activeElement)) document.activeElement.blur();
      form.closest("[popover]")?.hidePopover?.();
      form.closest("details")?.removeAttribute("open");
      const near = form.closest("tr, li, section");
      take(page);
      find("said").replaceChildren(...$("#said > *", page).map((said) => document.importNode(said, true)));
      // The button may have become its opposite; whoever uses the keyboard is still there.
      const home = form.isConnected ? form : near;
      if (document.activeElement === document.body && home?.isConnected) home.querySelector("button")?.focus({ preventScroll: true });
    }, () => {
      over();
      complain(form, "The server did not answer. Look whether it was done before you try again.");
    });
  });

  // What was done is said once: an address that is kept or shared does not say it again.
  const forget = () => {
    const address = new URL(location);
    if (!address.searchParams.has("done")) return;
    ["done", "n", "seal"].forEach((name) => address.searchParams.delete(name));
    history.replaceState(null, "", address);
  };

  // What only works with a script is hidden until there is one.
  const dress = (root) => {
    $("[data-copy], [data-copy-from], #pick-all", root).forEach((part) => { part.hidden = false; });
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
  // A wide graph begins where this job is.
  $(".graph").forEach((graph) => {
    const here = graph.querySelector(".here")?.getBoundingClientRect();
    if (here) graph.scrollLeft += Math.max(here.right + 12 - graph.getBoundingClientRect().right, 0);
  });
  listen();
})();
