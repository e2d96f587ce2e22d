// What a person who cannot see, point or tell colours apart needs of a page; answers with what is missing.
(() => {
  const found = [];
  const say = (what, node) => found.push(`${what}: ${node.outerHTML.slice(0, 160)}`);
  const nameOf = (node) =>
    (node.getAttribute("aria-label") || node.labels?.[0]?.textContent || node.title || node.alt || node.textContent || "").trim();
  const isShown = (node) => node.checkVisibility?.({ checkVisibilityCSS: true }) ?? true;
  if (!document.title || !document.documentElement.lang) found.push("the page has no title or no language");
  for (const landmark of ["main", "header", "nav[aria-label]", "h1"]) {
    if (!document.querySelector(landmark)) found.push(`there is no ${landmark}`);
  }
  if (document.querySelectorAll("h1").length > 1) found.push("there is more than one h1");
  document.querySelectorAll("a[href], button, [role=img], svg[role=group]").forEach((node) => {
    if (isShown(node) && !nameOf(node)) say("no name", node);
  });
  document.querySelectorAll("input:not([type=hidden]), select, textarea").forEach((node) => {
    if (!node.labels?.length && !node.getAttribute("aria-label")) say("no label", node);
  });
  document.querySelectorAll("img:not([alt])").forEach((node) => say("no alternative text", node));
  document.querySelectorAll("svg:not([role]):not([aria-hidden])").forEach((node) => {
    if (!node.closest("[aria-hidden], [role=img], a[aria-label]")) say("a drawing without role", node);
  });
  const ids = [...document.querySelectorAll("[id]")].map((node) => node.id);
  ids.filter((id, place) => ids.indexOf(id) !== place).forEach((id) => found.push(`id twice: ${id}`));
  document.querySelectorAll("[aria-labelledby]").forEach((node) => {
    if (!document.getElementById(node.getAttribute("aria-labelledby"))) say("labelled by nothing", node);
  });
  document.querySelectorAll("table").forEach((table) => {
    if (table.querySelectorAll("th").length === 0) say("a table without heads", table);
  });

  // A list of terms holds terms and meanings alone, or groups of them.
  document.querySelectorAll("dl > :not(dt, dd, div), dl > div > :not(dt, dd)").forEach((node) => say("not a term or meaning", node));
  document.querySelectorAll("ul > :not(li), ol > :not(li)").forEach((node) => say("not an entry", node));
  // Controls that do different things to different ones must not have the same name.
  const named = new Map();
  document.querySelectorAll("button").forEach((node) => {
    const action = `${node.form?.getAttribute("action") ?? ""} ${node.value}`;
    if (!isShown(node) || !node.form?.method.match(/post/i)) return;
    const name = nameOf(node);
    if (named.has(name) && named.get(name) !== action) say("a name that another button has", node);
    named.set(name, action);
  });

  // Colours as they are painted: the colour of text over everything below it.
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (color) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = "#000";
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
  const behind = (node) => {
    const layers = [];
    for (let at = node; at; at = at.parentElement) {
      const color = rgba(getComputedStyle(at).backgroundColor);
      if (color[3] > 0) layers.push(color);
      if (color[3] === 1) break;
    }
    return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255, 1]);
  };
  const light = ([r, g, b]) => {
    const line = [r, g, b].map((v) => v / 255).map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * line[0] + 0.7152 * line[1] + 0.0722 * line[2];
  };
  const seen = new Set();
  document.querySelectorAll("body *").forEach((node) => {
    const hasText = [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim());
    if (!hasText || !isShown(node) || node.closest("svg, script, :disabled, .unseen, dialog:not([open])")) return;
    const style = getComputedStyle(node);
    const below = behind(node);
    const text = over(rgba(style.color), below);
    const [high, low] = [light(text), light(below)].sort((a, b) => b - a);
    const ratio = (high + 0.05) / (low + 0.05);
    const size = parseFloat(style.fontSize);
    const isLarge = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    const kind = `${node.tagName}.${node.className}`;
    if (ratio < (isLarge ? 3 : 4.5) && !seen.has(kind)) {
      seen.add(kind);
      found.push(`contrast ${ratio.toFixed(2)} of ${kind}: ${node.textContent.trim().slice(0, 40)}`);
    }
  });
  // Fields stay in their place and have their frame, names of tiles fit.
  document.querySelectorAll(".field > :is(input, select, textarea)").forEach((node) => {
    if (!isShown(node)) return;
    const [own, place] = [node.getBoundingClientRect(), node.parentElement.getBoundingClientRect()];
    if (own.right > place.right + 1 || own.left < place.left - 1) say("wider than its field", node);
    if (!/checkbox|radio|range/.test(node.type) && parseFloat(getComputedStyle(node).borderRadius) === 0) say("a field without style", node);
  });
  document.querySelectorAll(".tile-name").forEach((node) => {
    if (node.scrollWidth > node.clientWidth + 1) say("too long for its tile", node);
  });
  if (document.documentElement.scrollWidth > innerWidth) found.push(`wider than the screen: ${document.documentElement.scrollWidth}`);
  return found;
})()
