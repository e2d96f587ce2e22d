// Charts of lines: the value of the step that is pointed at, or that the arrow keys choose.
(() => {
  "use strict";
  const readout = Object.assign(document.createElement("output"), { id: "readout", hidden: true });
  document.body.append(readout);

  // Shows the step nearest to a place between 0 and 1 that has a value.
  const show = (chart, share) => {
    const values = chart.dataset.values.split("|");
    const at = Math.min(Math.max(Math.floor(share * values.length), 0), values.length - 1);
    const drawing = chart.querySelector("svg").getBoundingClientRect();
    readout.textContent = values[at] || "no value";
    readout.hidden = false;
    const left = drawing.left + (at + 0.5) / values.length * drawing.width;
    readout.style.left = `${Math.min(Math.max(left - readout.offsetWidth / 2, 4), innerWidth - readout.offsetWidth - 4)}px`;
    readout.style.top = `${Math.max(drawing.top - readout.offsetHeight - 6, 4)}px`;
    chart.dataset.at = at;
  };
  const hide = () => { readout.hidden = true; };

  document.addEventListener("pointermove", (event) => {
    const chart = event.target.closest?.(".chart[data-values]");
    if (!chart) { if (!document.activeElement?.matches?.(".chart")) hide(); return; }
    const drawing = chart.querySelector("svg").getBoundingClientRect();
    show(chart, (event.clientX - drawing.left) / drawing.width);
  });
  // Focusing a chart may scroll to it.
  document.addEventListener("scroll", () => {
    const chart = document.activeElement?.closest(".chart[data-values]");
    if (chart) show(chart, (Number(chart.dataset.at) + 0.5) / chart.dataset.values.split("|").length);
    else hide();
  }, { passive: true });
  document.addEventListener("focusout", hide);
  document.addEventListener("focusin", (event) => {
    if (!event.target.matches?.(".chart[data-values]")) return;
    const number = event.target.dataset.values.split("|").length;
    show(event.target, (Number(event.target.dataset.at ?? number - 1) + 0.5) / number);
  });
  document.addEventListener("keydown", (event) => {
    const chart = event.target.closest?.(".chart[data-values]");
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!chart || !by) return;
    event.preventDefault();
    show(chart, (Number(chart.dataset.at ?? 0) + by + 0.5) / chart.dataset.values.split("|").length);
  });
})();
