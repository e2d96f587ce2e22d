// Searches the static site of the guides: every word must be in a section; headings count more than text.
(() => {
  "use strict";
  const RESULTS = 30;
  const EXCERPT = 160;
  const query = new URLSearchParams(location.search).get("q") ?? "";
  document.getElementById("q").value = query;
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const list = document.getElementById("results");
  if (words.length === 0) return;
  const found = [];
  for (const [to, place, text] of GUIDE_SECTIONS) {
    const [head, body] = [place.toLowerCase(), text.toLowerCase()];
    let score = 0;
    for (const word of words) {
      const part = (head.includes(word) ? 9 : 0) + Math.min(body.split(word).length - 1, 3);
      if (part === 0) { score = 0; break; }
      score += part;
    }
    if (score > 0) found.push({ to, place, text, score, at: Math.max(body.indexOf(words[0]), 0) });
  }
  found.sort((a, b) => b.score - a.score);
  for (const hit of found.slice(0, RESULTS)) {
    const [item, link, note] = ["li", "a", "p"].map((name) => document.createElement(name));
    link.href = hit.to;
    link.textContent = hit.place;
    const start = hit.text.lastIndexOf(" ", Math.max(hit.at - EXCERPT / 3, 0)) + 1;
    const end = hit.text.indexOf(" ", start + EXCERPT);
    note.textContent = `${start > 0 ? "… " : ""}${hit.text.slice(start, end < 0 ? undefined : end)}${end < 0 ? "" : " …"}`;
    item.append(link, note);
    list.append(item);
  }
  if (found.length === 0) list.replaceWith(`Nothing in the guides contains ${query}.`);
})();
