// Highlight linked words, draw charts, and add keyboard shortcuts. Pages also work without JavaScript.
(() => {
  "use strict";

  // Highlight the word under the pointer, or chosen with the arrow keys, and its linked words.
  const highlighted = new Set();
  const clear = () => { for (const item of highlighted) item.classList.remove("lit"); highlighted.clear(); };
  const highlight = (item) => { item.classList.add("lit"); highlighted.add(item); };
  function show(word, announce) {
    clear();
    const pair = word.closest(".pair");
    if (!pair) return;
    const keys = new Set([word.dataset.key, ...word.dataset.to.split(" ").filter(Boolean)]);
    const partners = new Set();
    for (const other of pair.querySelectorAll(".w[data-key]")) {
      if (!keys.has(other.dataset.key)) continue;
      highlight(other);
      if (other.dataset.key !== word.dataset.key && other.closest(".sentence")) partners.add(other.textContent.trim());
    }
    for (const link of pair.querySelectorAll("[data-keys]"))
      if (link.dataset.keys.split(" ").includes(word.dataset.key)) highlight(link);
    if (announce) document.getElementById("status").textContent = word.textContent.trim() + (partners.size ? " – " + [...partners].join(", ") : ", no link");
  }
  function showNode(node) {
    clear();
    const group = node.closest("svg");
    for (const other of group.querySelectorAll("[data-node]")) if (other.dataset.node === node.dataset.node) highlight(other);
  }
  document.addEventListener("pointerover", (event) => {
    const word = event.target.closest?.(".w[data-key]");
    const node = word ? null : event.target.closest?.("[data-node]");
    if (word) show(word, false); else if (node) showNode(node); else if (!document.activeElement?.matches(".sentence")) clear();
  });
  const current = new WeakMap();
  document.addEventListener("focusin", (event) => {
    if (event.target.matches?.(".sentence") && event.target.matches(":focus-visible")) step(event.target, 0);
  });
  document.addEventListener("focusout", (event) => { if (event.target.matches?.(".sentence")) clear(); });
  function step(sentence, by) {
    const words = [...sentence.querySelectorAll(".w")];
    if (!words.length) return;
    const at = Math.max(0, Math.min(words.length - 1, (current.get(sentence) ?? 0) + by));
    current.set(sentence, at);
    words[at].scrollIntoView({ block: "nearest", inline: "nearest" });
    show(words[at], true);
  }
  document.addEventListener("keydown", (event) => {
    const at = event.target;
    if (at.matches?.(".sentence") && !event.ctrlKey && !event.altKey && !event.metaKey) {
      const forward = at.dir === "rtl" ? "ArrowLeft" : "ArrowRight";
      const back = at.dir === "rtl" ? "ArrowRight" : "ArrowLeft";
      const by = { [forward]: 1, [back]: -1, Home: -1e6, End: 1e6 }[event.key];
      if (by) { event.preventDefault(); step(at, by); }
    } else if (at.matches?.("#sql, #text") && event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      at.form.requestSubmit();
    } else if (event.key === "/" && !at.matches?.("input, textarea, select")) {
      const field = document.getElementById("q");
      if (field) { event.preventDefault(); field.focus(); field.select(); }
    }
  });

  const drawn = new Map();
  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  function columns(holder) {
    const points = JSON.parse(holder.dataset.points);
    if (holder.dataset.kind === "count") {
      const now = Date.now() / 1000;
      const days = points.filter((p) => p.day !== "now").map((p) => [Date.parse(p.day) / 1000, p.expected_uses]);
      const seen = follow(holder, now, points[points.length - 1].expected_uses);
      return [0, 1].map((k) => [...days, ...seen].map((p) => p[k]));
    }
    return points[0].map((_, k) => points.map((p) => p[k]));
  }
  // Collect values while the page is open, because the server has only one value per day.
  const watched = new WeakMap();
  function follow(holder, now, value) {
    const plot = holder.querySelector(".plot");
    const seen = watched.get(plot) ?? [];
    watched.set(plot, seen);
    if (!seen.length || now - seen[seen.length - 1][0] >= 1) seen.push([now, value]);
    return seen;
  }
  function draw(holder) {
    const plot = holder.querySelector(".plot");
    const known = drawn.get(plot);
    if (known && known.points === holder.dataset.points && holder.dataset.kind !== "count") return;
    const data = columns(holder);
    if (data[0].length > 1 && data.slice(1).some((line) => new Set(line).size > 1)) holder.hidden = false;
    if (holder.hidden) return;
    plot.dataset.points = data[0].length;
    if (known) { known.chart.setData(data); known.points = holder.dataset.points; return; }
    const axis = { stroke: color("--quiet"), grid: { stroke: color("--line"), width: 1 }, ticks: { show: false } };
    const names = holder.dataset.labels ? JSON.parse(holder.dataset.labels) : [holder.dataset.label];
    const strokes = (names.length > 1 ? ["--c2", "--c1"] : ["--c1"]).map(color);
    const days = holder.dataset.kind === "count";
    // Label the axis with UTC days, as in the store, or with hours if it spans up to two days.
    const moments = (u, ticks) => ticks.map((t) => {
      const text = new Date(t * 1000).toISOString();
      return u.scales.x.max - u.scales.x.min > 172800 ? text.slice(5, 10) : text.slice(11, 16);
    });
    const chart = new uPlot({
      width: holder.clientWidth, height: days ? 180 : 220,
      tzDate: (t) => uPlot.tzDate(new Date(t * 1000), "Etc/UTC"),
      legend: { show: names.filter(Boolean).length > 1, live: false },
      scales: { x: { time: days } },
      series: [
        {},
        ...names.map((label, k) => ({ label, stroke: strokes[k], width: 2, spanGaps: true, points: { show: data[0].length < 40, size: 5 } })),
      ],
      axes: [days ? { ...axis, values: moments } : axis, { ...axis, size: days ? 48 : 76, values: (_, ticks) => ticks.map((t) => t.toLocaleString("en")) }],
    }, data, plot);
    drawn.set(plot, { chart, points: holder.dataset.points });
  }
  function drawAll() {
    for (const [plot, { chart }] of drawn) if (!plot.isConnected) { chart.destroy(); drawn.delete(plot); }
    if (window.uPlot) for (const holder of document.querySelectorAll(".curve")) draw(holder);
  }
  function redraw() {
    for (const [plot, { chart }] of drawn) { chart.destroy(); drawn.delete(plot); plot.replaceChildren(); }
    drawAll();
  }
  let waiting;
  addEventListener("resize", () => { clearTimeout(waiting); waiting = setTimeout(redraw, 150); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  document.addEventListener("htmx:after:swap", drawAll);
  document.addEventListener("htmx:after:settle", drawAll);
  drawAll();
})();
