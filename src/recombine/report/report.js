/* Learning curves: one panel per arm, one line per composition. Plain SVG; the data are in #curve-data. */
(function () {
  "use strict";
  const root = document.documentElement;
  const data = JSON.parse(document.getElementById("curve-data").textContent);
  const panels = document.getElementById("panels");
  const legend = document.getElementById("legend");
  window.addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((d) => { d.open = true; }));
  if (!panels || !data.arms.length) { root.dataset.drawn = "nothing"; return; }

  const DASHES = ["", "7 4", "2 3", "9 3 2 3", "1 5"];           // by level, so that colour is never alone
  const MARKS = ["circle", "square", "diamond", "up", "down", "cross", "bar", "star"];  // by composition within a level
  const state = { weights: "", measure: "joint", hidden: new Set(), focus: null };
  const compositions = data.compositions;
  const within = {};
  compositions.forEach((c) => {
    within[c.level] = (within[c.level] || 0) + 1;
    c.mark = MARKS[(within[c.level] - 1) % MARKS.length];
    c.shade = "l" + Math.min(c.level, 4);
    c.dash = DASHES[Math.min(c.level, 4)];
  });

  function node(name, attributes, parent) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const key in attributes) made.setAttribute(key, attributes[key]);
    if (parent) parent.appendChild(made);
    return made;
  }
  function element(name, attributes, parent, text) {
    const made = document.createElement(name);
    for (const key in attributes) made.setAttribute(key, attributes[key]);
    if (text !== undefined) made.textContent = text;
    if (parent) parent.appendChild(made);
    return made;
  }
  function markPath(kind, x, y, r) {
    const p = (...q) => "M" + q.map(([a, b]) => (x + a * r).toFixed(1) + " " + (y + b * r).toFixed(1)).join("L");
    switch (kind) {
      case "square": return p([-0.9, -0.9], [0.9, -0.9], [0.9, 0.9], [-0.9, 0.9]) + "Z";
      case "diamond": return p([0, -1.3], [1.3, 0], [0, 1.3], [-1.3, 0]) + "Z";
      case "up": return p([0, -1.2], [1.15, 0.9], [-1.15, 0.9]) + "Z";
      case "down": return p([0, 1.2], [1.15, -0.9], [-1.15, -0.9]) + "Z";
      case "cross": return p([-1, -1], [1, 1]) + p([-1, 1], [1, -1]);
      case "bar": return p([0, -1.3], [0, 1.3]);
      case "star": return p([-1.2, 0], [1.2, 0]) + p([0, -1.2], [0, 1.2]) + p([-0.8, -0.8], [0.8, 0.8]) + p([-0.8, 0.8], [0.8, -0.8]);
      default: return "M" + (x - r) + " " + y + "a" + r + " " + r + " 0 1 0 " + 2 * r + " 0a" + r + " " + r + " 0 1 0 " + -2 * r + " 0Z";
    }
  }
  function swatch(shade, dash, mark, parent) {
    const svg = node("svg", { width: 30, height: 14, viewBox: "0 0 30 14", class: shade, "aria-hidden": "true" }, parent);
    node("path", { d: "M1 7H29", fill: "none", stroke: "var(--c)", "stroke-width": 2.2, "stroke-dasharray": dash }, svg);
    if (mark) node("path", { d: markPath(mark, 15, 7, 3.6), class: "mark" }, svg);
  }
  const percent = (v) => (v > 0.99 && v < 1) || (v > 0 && v < 0.01) ? (100 * v).toFixed(1) + " %" : Math.round(100 * v) + " %";
  const stepText = (s) => s.toLocaleString("en");
  function stats(values) {
    const known = values.filter((v) => v !== null);
    if (!known.length) return null;
    return { mean: known.reduce((a, b) => a + b, 0) / known.length, low: Math.min(...known), high: Math.max(...known), n: known.length };
  }
  function ticks(most) {
    const rough = most / 4;
    const power = Math.pow(10, Math.floor(Math.log10(rough)));
    const unit = [1, 2, 2.5, 5, 10].map((k) => k * power).find((u) => u >= rough);
    const found = [];
    for (let t = 0; t <= most * 1.001; t += unit) found.push(t);
    return found;
  }
  const short = (s) => (s >= 1000 ? +(s / 1000).toFixed(1) + "k" : String(Math.round(s)));

  const lastStep = Math.max(...data.arms.map((a) => a.steps[a.steps.length - 1]), 1);
  const HEIGHT = 262, LEFT = 42, RIGHT = 14, TOP = 10, BOTTOM = 38;

  const views = data.arms.map((arm) => {
    const box = element("div", { class: "panel", tabindex: "0", role: "group", "aria-label": "Learning curves of " + arm.name + ". Left and right arrow keys read the values." }, panels);
    element("h3", {}, box, arm.name);
    const svg = node("svg", { height: HEIGHT, "aria-hidden": "true" }, box);
    const tip = element("div", { class: "tip", role: "status", hidden: "" }, box);
    const view = { arm, box, svg, tip, at: null };
    svg.addEventListener("pointermove", (event) => point(view, event));
    svg.addEventListener("pointerdown", (event) => point(view, event));
    svg.addEventListener("pointerleave", () => { if (document.activeElement !== box) hideTip(view); });
    box.addEventListener("blur", () => hideTip(view));
    box.addEventListener("keydown", (event) => {
      const last = arm.steps.length - 1;
      const move = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (event.key === "Escape") return hideTip(view);
      if (move === undefined && event.key !== "Home" && event.key !== "End") return;
      event.preventDefault();
      const now = view.at === null ? (move === 1 ? -1 : last + 1) : view.at;
      showTip(view, event.key === "Home" ? 0 : event.key === "End" ? last : Math.max(0, Math.min(last, now + move)), null);
    });
    return view;
  });

  const x = (view, step) => LEFT + (view.width - LEFT - RIGHT) * (step / lastStep);
  const y = (share) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - share);
  const visible = () => compositions.filter((c) => !state.hidden.has(c.code));
  const values = (view, code) => (view.arm.values[state.measure + state.weights] || {})[code] || [];

  function draw(view) {
    const { svg, arm } = view;
    view.width = Math.max(240, svg.clientWidth || svg.parentNode.clientWidth - 16);
    svg.setAttribute("viewBox", "0 0 " + view.width + " " + HEIGHT);
    svg.replaceChildren();
    [0, 0.25, 0.5, 0.75, 1].forEach((share) => {
      node("line", { class: "grid", x1: LEFT, x2: view.width - RIGHT, y1: y(share), y2: y(share) }, svg);
      node("text", { x: LEFT - 6, y: y(share) + 4, "text-anchor": "end" }, svg).textContent = 100 * share + " %";
    });
    ticks(lastStep).forEach((step) => {
      node("text", { x: x(view, step), y: HEIGHT - BOTTOM + 16, "text-anchor": "middle" }, svg).textContent = short(step);
    });
    node("text", { x: (LEFT + view.width - RIGHT) / 2, y: HEIGHT - 6, "text-anchor": "middle" }, svg).textContent = "training step";
    view.guide = node("line", { class: "guide", y1: TOP, y2: HEIGHT - BOTTOM, visibility: "hidden" }, svg);
    visible().forEach((c) => {
      const rows = values(view, c.code);
      const found = rows.map(stats);
      const known = arm.steps.map((step, i) => ({ step, s: found[i], own: rows[i] })).filter((p) => p.s);
      if (!known.length) return;
      const group = node("g", { class: "curve " + c.shade, "data-code": c.code }, svg);
      const path = (pick) => "M" + known.map((p) => x(view, p.step).toFixed(1) + " " + y(pick(p)).toFixed(1)).join("L");
      if (known.some((p) => p.s.n > 1)) {
        const back = known.slice().reverse().map((p) => x(view, p.step).toFixed(1) + " " + y(p.s.low).toFixed(1)).join("L");
        node("path", { class: "band", d: path((p) => p.s.high) + "L" + back + "Z" }, group);
        arm.seeds.forEach((_, m) => {
          if (known.every((p) => p.own[m] !== null)) node("path", { class: "one", d: path((p) => p.own[m]) }, group);
        });
      }
      node("path", { class: "line", d: path((p) => p.s.mean), "stroke-dasharray": c.dash }, group);
      const every = Math.ceil(known.length / 12);
      known.forEach((p, i) => {
        if ((known.length - 1 - i) % every === 0) node("path", { class: "mark", d: markPath(c.mark, x(view, p.step), y(p.s.mean), 3.4) }, group);
      });
    });
    light(view);
  }
  function light(view) {
    view.svg.classList.toggle("focused", state.focus !== null);
    view.svg.querySelectorAll(".curve").forEach((g) => g.classList.toggle("lit", state.focus !== null && state.focus.has(g.dataset.code)));
  }
  function point(view, event) {
    const place = view.svg.getBoundingClientRect();
    const px = (event.clientX - place.left) * (view.width / place.width);
    let best = 0;
    view.arm.steps.forEach((step, i) => {
      if (Math.abs(x(view, step) - px) < Math.abs(x(view, view.arm.steps[best]) - px)) best = i;
    });
    showTip(view, best, event.clientY - place.top);
  }
  function showTip(view, index, py) {
    view.at = index;
    const step = view.arm.steps[index];
    const rows = visible().map((c) => ({ c, s: stats(values(view, c.code)[index] || []) })).filter((r) => r.s);
    rows.sort((a, b) => b.s.mean - a.s.mean);
    const distance = (r) => Math.abs(y(r.s.mean) - py);
    const near = py === null || !rows.length ? null : rows.reduce((a, b) => (distance(b) < distance(a) ? b : a));
    const start = near && rows.length > 12 ? Math.max(0, Math.min(rows.length - 12, rows.indexOf(near) - 6)) : 0;
    view.tip.replaceChildren();
    element("strong", {}, view.tip, "step " + stepText(step));
    const table = element("table", {}, view.tip);
    rows.slice(start, start + 12).forEach((r) => {
      const row = element("tr", r === near ? { class: "near" } : {}, table);
      swatch(r.c.shade, r.c.dash, r.c.mark, element("td", {}, row));
      element("td", {}, row, r.c.code);
      element("td", {}, row, percent(r.s.mean));
      element("td", {}, row, r.s.n > 1 ? percent(r.s.low).replace(" %", "") + "–" + percent(r.s.high) : "one seed");
    });
    if (!rows.length) element("span", {}, view.tip, "nothing is shown: click a name above");
    view.tip.hidden = false;
    const px = x(view, step);
    const scale = view.svg.clientWidth / view.width || 1;
    const offset = view.svg.offsetLeft || 8;
    const room = view.box.clientWidth - view.tip.offsetWidth - 6;
    const right = offset + px * scale + 14;
    const left = offset + px * scale - view.tip.offsetWidth - 14;
    view.tip.style.left = Math.max(6, right <= room ? right : left >= 6 ? left : room) + "px";
    view.tip.style.top = "44px";
    view.guide.setAttribute("x1", px);
    view.guide.setAttribute("x2", px);
    view.guide.setAttribute("visibility", "visible");
  }
  function hideTip(view) {
    view.at = null;
    view.tip.hidden = true;
    if (view.guide) view.guide.setAttribute("visibility", "hidden");
  }
  function drawAll() {
    views.forEach((view) => { hideTip(view); draw(view); });
    legend.querySelectorAll("button[data-code]").forEach((b) => b.setAttribute("aria-pressed", String(!state.hidden.has(b.dataset.code))));
    legend.querySelectorAll("button[data-level]").forEach((b) => {
      const own = compositions.filter((c) => String(c.level) === b.dataset.level);
      b.setAttribute("aria-pressed", String(own.some((c) => !state.hidden.has(c.code))));
    });
  }
  function lightUp(button, codes) {
    const on = () => { state.focus = new Set(codes); views.forEach(light); };
    const off = () => { state.focus = null; views.forEach(light); };
    button.addEventListener("pointerenter", (event) => { if (event.pointerType === "mouse") on(); });
    button.addEventListener("pointerleave", off);
    button.addEventListener("focus", () => { if (button.matches(":focus-visible")) on(); });
    button.addEventListener("blur", off);
  }

  data.levels.forEach((level) => {
    const own = compositions.filter((c) => c.level === level.level);
    const row = element("div", { role: "group", "aria-label": level.name }, legend);
    const whole = element("button", { type: "button", class: "whole l" + Math.min(level.level, 4), "data-level": level.level }, row);
    swatch("l" + Math.min(level.level, 4), DASHES[Math.min(level.level, 4)], null, whole);
    whole.append(level.name);
    whole.addEventListener("click", () => {
      const hide = own.some((c) => !state.hidden.has(c.code));
      own.forEach((c) => (hide ? state.hidden.add(c.code) : state.hidden.delete(c.code)));
      drawAll();
    });
    lightUp(whole, own.map((c) => c.code));
    own.forEach((c) => {
      const button = element("button", { type: "button", class: c.shade, "data-code": c.code, title: c.words }, row);
      swatch(c.shade, c.dash, c.mark, button);
      button.append(c.words === c.code ? c.code : c.code + " " + c.words);
      button.addEventListener("click", () => {
        if (!state.hidden.delete(c.code)) state.hidden.add(c.code);
        drawAll();
      });
      lightUp(button, [c.code]);
    });
  });

  const controls = document.querySelector(".controls");
  controls.hidden = false;
  controls.querySelectorAll("input").forEach((input) => {
    const needed = input.name === "weights" ? "joint" + input.value : input.value;
    input.disabled = !data.measures.includes(needed);
    input.addEventListener("change", () => { state[input.name] = input.value; drawAll(); });
  });
  drawAll();
  let width = panels.clientWidth;
  new ResizeObserver(() => { if (panels.clientWidth !== width) { width = panels.clientWidth; drawAll(); } }).observe(panels);
  root.dataset.drawn = String(views.length);

  /* Opened with #selftest, the page works its own controls and writes the outcome into <html data-selftest>. */
  if (location.hash === "#selftest") {
    const failures = [];
    const check = (name, ok) => { if (!ok) failures.push(name); };
    const lines = (code) => panels.querySelectorAll('.curve[data-code="' + code + '"]').length;
    const code = compositions[0].code;
    const button = legend.querySelector('button[data-code="' + code + '"]');
    check("all lines drawn", compositions.every((c) => lines(c.code) === views.length));
    button.click();
    check("composition hidden", lines(code) === 0 && button.getAttribute("aria-pressed") === "false");
    check("others stay", compositions.length < 2 || lines(compositions[1].code) === views.length);
    button.click();
    check("composition shown again", lines(code) === views.length && button.getAttribute("aria-pressed") === "true");
    const level = legend.querySelector("button[data-level]");
    level.click();
    check("level hidden", compositions.every((c) => (lines(c.code) === 0) === (String(c.level) === level.dataset.level)));
    level.click();
    const shape = () => Array.from(panels.querySelectorAll("path.line")).map((p) => p.getAttribute("d")).join();
    const before = shape();
    for (const [name, value] of [["weights", "_raw"], ["measure", "joint_probe_only"]]) {
      const choices = Array.from(controls.querySelectorAll('input[name="' + name + '"]'));
      const other = choices.find((i) => i.value === value);
      if (other.disabled) continue;
      other.click();
      check(name + " changes the lines", shape() !== before);
      choices.find((i) => i.value !== value).click();
      check(name + " changes back", shape() === before);
    }
    const view = views[0];
    view.box.dispatchEvent(new KeyboardEvent("keydown", { key: "End" }));
    check("tooltip by keyboard", !view.tip.hidden && view.tip.textContent.includes(percent(stats(values(view, code)[view.arm.steps.length - 1]).mean)));
    view.box.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape" }));
    check("tooltip closes", view.tip.hidden);
    const place = view.svg.getBoundingClientRect();
    view.svg.dispatchEvent(new PointerEvent("pointermove", { clientX: place.left + 60, clientY: place.top + 60 }));
    check("tooltip by pointer", !view.tip.hidden && view.box.querySelectorAll("tr.near").length === 1);
    check("tooltip within the panel", view.tip.offsetLeft >= 0 && view.tip.offsetLeft + view.tip.offsetWidth <= view.box.clientWidth + 1);
    hideTip(view);
    document.querySelectorAll("details").forEach((d) => { d.open = true; });
    /* What scrolls may be wider than its box; the dots of a scale reach over its ends by half their width. */
    const named = (e) => e.tagName.toLowerCase() + "." + e.className + " " + e.textContent.trim().slice(0, 24);
    const free = Array.from(document.querySelectorAll("main section *")).filter((e) =>
      !e.closest("svg, .bar, .gap, .tip, fieldset, .accuracy thead") && !e.parentElement.closest(".scroll, pre"));
    const leaves = free.find((e) => {
      const box = e.parentElement.closest("section, .card, .panel, .pairs li, .abilities li, .accuracy td").getBoundingClientRect();
      const own = e.getBoundingClientRect();
      return own.width && (own.left < box.left - 0.5 || own.right > box.right + 0.5);
    });
    check("nothing leaves its box at " + innerWidth + " px: " + (leaves && named(leaves)), !leaves);
    const spills = free.find((e) => e.clientWidth && e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).overflowX === "visible" && !e.querySelector(".bar, .gap"));
    check("no text runs out of its place at " + innerWidth + " px: " + (spills && named(spills)), !spills);
    const beside = Array.from(document.querySelectorAll(".pairs li, .strip, .times li, .tests li, .accuracy td, .card h3, .abilities"));
    const clash = beside.find((e) => {
      const own = Array.from(e.children).map((c) => c.getBoundingClientRect()).filter((b) => b.width);
      return own.some((a, i) => own.slice(i + 1).some((b) =>
        Math.min(a.right, b.right) - Math.max(a.left, b.left) > 0.5 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 4));
    });
    check("nothing overlaps at " + innerWidth + " px: " + (clash && named(clash)), !clash);
    check("no overflow at " + innerWidth + " px", root.scrollWidth <= innerWidth);
    root.dataset.width = String(innerWidth);
    root.dataset.selftest = failures.length ? "failed: " + failures.join("; ") : "passed";
    if (parent !== window) parent.postMessage({ selftest: root.dataset.selftest, width: innerWidth }, "*");
  }
})();
