// Forms: a preview of the next runs while a schedule is typed, or of what a limit would have held back, and the question before an action that cannot be undone.
const askFirst = (() => {
  "use strict";
  const find = (id) => document.getElementById(id);

  // Milliseconds without typing after which the preview is requested.
  const PAUSE = 250;
  let [waiting, number] = [null, 0];
  const TIMING = ["cron", "timezone", "every", "at"];
  const LIMITS = ["max_running", "rate_count", "rate_per", "max_running_per_key", "key_rate_count", "key_rate_per"];
  document.addEventListener("input", (event) => {
    const form = event.target.closest?.("[data-preview]");
    const names = [TIMING, LIMITS].find((all) => all.includes(event.target.name));
    if (!form || !names) return;
    // One of the three kinds of timing: typing one clears the others.
    const kinds = { cron: ["every", "at"], every: ["cron", "at"], at: ["cron", "every"] };
    if (event.target.value) (kinds[event.target.name] ?? []).forEach((name) => { form.elements[name].value = ""; });
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      const fields = new URLSearchParams(names.map((name) => [name, form.elements[name]?.value ?? ""]));
      const request = new XMLHttpRequest();
      const mine = ++number;
      request.open("GET", `${form.dataset.preview}?${fields}`);
      request.responseType = "document";
      request.onload = () => {
        const found = request.response?.getElementById("preview");
        const place = form.querySelector(".preview") ?? find("preview");
        // An answer to an earlier text is out of date.
        if (!found || !place || mine !== number) return;
        const shown = document.importNode(found, true);
        // A page of several forms has several previews.
        if (!place.id) shown.removeAttribute("id");
        place.replaceWith(shown);
      };
      request.send();
    }, PAUSE);
  });

  // Asks before a form is sent; the answer "yes" sends it again.
  return (form, submitter) => {
    const dialog = find("confirm");
    const yes = find("confirm-yes");
    find("confirm-text").textContent = form.dataset.ask;
    yes.textContent = submitter?.textContent || "Continue";
    yes.className = submitter?.classList.contains("grave") ? "grave" : "main";
    dialog.onclose = () => {
      if (dialog.returnValue !== "yes") { submitter?.focus(); return; }
      form.dataset.agreed = "";
      form.requestSubmit(submitter ?? undefined);
    };
    dialog.returnValue = "";
    dialog.showModal();
  };
})();
