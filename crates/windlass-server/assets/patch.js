// Makes one tree equal to another by changing only the differences. Focus, selection, ticks, scroll positions and open details
// are kept, because their nodes are kept; forms that are being filled in are not changed.
const patch = (() => {
  "use strict";
  const FIELDS = "input:not([type=hidden]), textarea, select";

  // Whether a field was changed by the user; ticks of a list are handled by its rows.
  const isTouched = (field) => {
    if (field.matches("select")) {
      const first = Math.max([...field.options].findIndex((option) => option.defaultSelected), 0);
      return field.selectedIndex !== first;
    }
    if (field.matches("[type=checkbox], [type=radio]")) return field.checked !== field.defaultChecked;
    return field.value !== field.defaultValue;
  };

  // Whether a form is in use: focused, changed without being sent, or open as a dialog.
  const isBusy = (form) => {
    if (form.closest("[popover]")?.getClientRects().length > 0) return true;
    const active = document.activeElement;
    if (form.contains(active) && active.matches("input:not([type=checkbox]), textarea, select")) return true;
    return [...form.querySelectorAll(FIELDS)].some(isTouched);
  };

  // The key of an element among its siblings, so that the row of one object never becomes the row of another while it is in
  // use: its own name, or the link of a row.
  const key = (node) => {
    if (node.nodeType !== Node.ELEMENT_NODE) return null;
    const own = node.id || node.dataset.key || node.dataset.job;
    if (own) return own;
    if (node.matches("button, input, select, textarea")) {
      const value = node.matches("button, [type=checkbox], [type=radio]") ? node.getAttribute("value") : "";
      return `${node.nodeName} ${node.getAttribute("name")} ${value} ${node.getAttribute("aria-label")}`;
    }
    if (node.matches("a[href]")) return `A ${node.getAttribute("href")}`;
    if (!node.matches("tr, li, section")) return null;
    const target = node.querySelector("a[href], form[action]");
    return target && `${node.nodeName} ${target.getAttribute("href") ?? target.getAttribute("action")}`;
  };

  // The part of the page that is being patched, and the results so far.
  let selected = null;
  let isSteady = () => false;
  let heldBack = 0;
  // Whether something differs that was left as it is: the next refresh must then send it again.
  let isPartial = false;

  const isSelected = (node) => selected !== null && selected.intersectsNode(node);
  const isLeft = (node) =>
    node.matches("[data-keep]") || (node.matches("form") && !node.querySelector("[data-steady]") && isBusy(node));

  // Marks rows that left the page or no longer match, until their list is no longer in use. Returns their number.
  const age = (rows, stay = new Set()) => {
    const left = [...rows.children].filter((row) => !stay.has(row));
    left.forEach((row) => row.classList.add("old"));
    return left.length;
  };

  const remove = (node) => {
    if (isSelected(node)) { isPartial = true; return; }
    if (node.nodeType === Node.ELEMENT_NODE) {
      // A list in use stays even if nothing matches any more.
      const inHand = [...node.querySelectorAll("tbody")].filter((rows) => isSteady(rows));
      if (inHand.length > 0) {
        heldBack += inHand.reduce((sum, rows) => sum + age(rows), 0);
        return;
      }
      if (isLeft(node) || [...node.querySelectorAll("form, [data-keep]")].some(isLeft)) {
        isPartial ||= !node.matches("[data-keep]");
        return;
      }
    }
    node.remove();
  };

  const attributes = (old, fresh) => {
    // The user decides whether it is open.
    const isOurs = (name) => !(name === "open" && old.matches("details, dialog"));
    for (const { name, value } of [...fresh.attributes]) {
      if (isOurs(name) && old.getAttribute(name) !== value) old.setAttribute(name, value);
    }
    for (const { name } of [...old.attributes]) {
      if (isOurs(name) && !fresh.hasAttribute(name)) old.removeAttribute(name);
    }
  };

  // A child without a key matches the next one of its kind.
  const alike = (at, next) => {
    const isKind = (node) => node.nodeName === next.nodeName && !key(node);
    for (let node = at; node; node = node.nextSibling) {
      if (isKind(node) && node.getAttribute?.("class") === next.getAttribute?.("class")) return node;
    }
    return at && isKind(at) ? at : null;
  };

  // Children by their keys; duplicates are numbered.
  const names = (parent) => {
    const [named, times] = [new Map(), new Map()];
    for (const child of parent.childNodes) {
      const name = key(child);
      if (!name) continue;
      const time = (times.get(name) ?? 0) + 1;
      times.set(name, time);
      named.set(child, `${time} ${name}`);
    }
    return named;
  };

  const children = (old, fresh) => {
    const [is, wanted] = [names(old), names(fresh)];
    const named = new Map([...is].map(([child, name]) => [name, child]));
    const isInHand = old.matches("tbody") && old.childElementCount > 0 && isSteady(old);
    if (isInHand || (old.matches("tbody") && isSelected(old))) {
      isPartial = true;
      // Rows in use keep their positions and are updated in place; added and removed rows are shown later.
      const stay = new Set();
      let added = 0;
      for (const next of fresh.children) {
        const row = named.get(wanted.get(next));
        if (row) {
          stay.add(row);
          node(row, next);
        } else added += 1;
      }
      // Each new row at the top has pushed one off the page, unless that row left by itself.
      if (isInHand) heldBack += Math.max(added, age(old, stay));
      return;
    }
    // Remove old nodes first, so that the others need not move.
    const kept = new Set(wanted.values());
    for (const [child, name] of is) {
      if (!kept.has(name)) remove(child);
    }
    let at = old.firstChild;
    for (const next of fresh.childNodes) {
      // A removed node that is in use keeps its position.
      while (at && is.has(at) && !kept.has(is.get(at))) at = at.nextSibling;
      const name = wanted.get(next);
      const match = name ? named.get(name) : alike(at, next);
      if (!match || match.nodeName !== next.nodeName) {
        isPartial ||= next.nodeType === Node.ELEMENT_NODE && next.querySelector("[data-same]") !== null || next.dataset?.same !== undefined;
        old.insertBefore(document.importNode(next, true), at);
        continue;
      }
      if (match === at) at = at.nextSibling;
      else old.insertBefore(match, at);
      node(match, next);
    }
    while (at) {
      const after = at.nextSibling;
      remove(at);
      at = after;
    }
  };

  const node = (old, fresh) => {
    if (old.nodeType !== Node.ELEMENT_NODE) {
      if (old.nodeValue === fresh.nodeValue) return;
      if (isSelected(old)) isPartial = true;
      else old.nodeValue = fresh.nodeValue;
    } else if (fresh.hasAttribute("data-same") || old.isEqualNode(fresh)) {
      // The server left it out because it did not change.
    } else if (isLeft(old)) {
      isPartial ||= !old.matches("[data-keep]");
    } else {
      attributes(old, fresh);
      children(old, fresh);
    }
  };

  // Makes `old` equal to `fresh`; rows for which `steady` is true keep their positions. Returns how many changes were held back, and whether
  // something was left as it was.
  return (old, fresh, steady) => {
    const selection = getSelection();
    selected = selection.isCollapsed || selection.rangeCount === 0 ? null : selection.getRangeAt(0);
    [isSteady, heldBack, isPartial] = [steady, 0, false];
    const active = document.activeElement;
    const ends = [...old.querySelectorAll(".log")].filter((log) => log.scrollTop + log.clientHeight >= log.scrollHeight - 4);
    const before = new Set(old.querySelectorAll(".log"));
    node(old, fresh);
    // A log scrolled to its end stays at its end.
    old.querySelectorAll(".log").forEach((log) => { if (ends.includes(log) || !before.has(log)) log.scrollTop = log.scrollHeight; });
    // Moving a node removes its focus.
    if (active !== document.activeElement && active?.isConnected && old.contains(active)) active.focus({ preventScroll: true });
    return { heldBack, isPartial };
  };
})();
