// The page reads itself again when the server says that something changed, and puts the difference in
// place. Nothing here makes markup of text: what comes is parsed without running, then compared.
"use strict";
(() => {
  const main = () => document.getElementById("main");
  const live = document.getElementById("live");
  let busy = false, again = false, last = 0, took = 0, events = null, timer = 0, typed = 0;

  const say = (word, style) => { live.textContent = word; live.className = `live ${style}`; };

  const put = (text) => {
    const found = new DOMParser().parseFromString(text, "text/html"), next = found.getElementById("main");
    if (!next) return;
    Idiomorph.morph(main(), next, {
      ignoreActiveValue: true,
      callbacks: { beforeAttributeUpdated: (name, node) => !(name === "open" && node.tagName === "DETAILS")
        && !(name === "value" && node.form?.method === "post" && node.value !== node.defaultValue) },
    });
    document.title = found.title;
    tick();
  };

  const read = async () => {
    if (busy) { again = true; return; }
    busy = true; again = false;
    const began = performance.now();
    try {
      const answer = await fetch(location.href, { headers: { Accept: "text/html" }, cache: "no-store" });
      const text = await answer.text();
      if (answer.ok) put(text);
    } catch { /* the stream says when the server is there again */ }
    last = performance.now(); took = last - began; busy = false;
    if (again) soon();
  };

  // At most once a second, and never more than a fifth of the time.
  const soon = () => {
    if (timer) return;
    const wait = Math.max(0, Math.max(1000, 4 * took) - (performance.now() - last));
    timer = setTimeout(() => { timer = 0; read(); }, wait);
  };

  let ticking = 0;
  const tick = () => {
    clearInterval(ticking);
    const seconds = +main().dataset.tick;
    if (seconds && !document.hidden) ticking = setInterval(soon, seconds * 1000);
  };

  const follows = (changed) => {
    const follow = main().dataset.follow;
    return follow === "*" || changed === "*" || (follow && changed.split(" ").includes(follow));
  };

  const connect = () => {
    if (events || document.hidden) return;
    events = new EventSource("/events");
    events.addEventListener("open", () => { say("live", "on"); soon(); });
    events.addEventListener("error", () => say("reconnecting", "off"));
    events.addEventListener("changed", (event) => { if (follows(event.data)) soon(); });
  };
  const pause = () => { if (events) { events.close(); events = null; } clearInterval(ticking); };
  // A browser allows few connections to one server: a page that nobody sees needs none.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) pause(); else { connect(); tick(); }
  });

  document.addEventListener("input", (event) => {
    const form = event.target.closest("form[data-live]");
    if (!form) return;
    clearTimeout(typed);
    typed = setTimeout(() => {
      const query = new URLSearchParams([...new FormData(form)].filter(([, value]) => value));
      history.replaceState(null, "", `${location.pathname}?${query}`);
      read();
    }, 200);
  });

  // An order: sent in the background, and the page that comes back says what came of it.
  document.addEventListener("submit", async (event) => {
    const form = event.target, by = event.submitter;
    if (form.method !== "post" || !by) return;
    event.preventDefault();
    const body = new URLSearchParams(new FormData(form, by));
    by.disabled = true;
    say("sending", "on");
    try {
      const answer = await fetch(location.href, { method: "POST", body, cache: "no-store" });
      const text = await answer.text();
      form.reset();
      form.closest("details")?.removeAttribute("open");
      put(text);
      say("live", "on");
    } catch { say("not sent", "off"); }
    by.disabled = false;
  });

  // ── keyboard ──
  const rows = () => [...document.querySelectorAll("[data-row]")];
  const move = (by) => {
    const all = rows(), at = all.findIndex((row) => row.classList.contains("at"));
    if (!all.length) return;
    const next = all[Math.min(all.length - 1, Math.max(0, at < 0 ? (by > 0 ? 0 : all.length - 1) : at + by))];
    all[at]?.classList.remove("at");
    next.classList.add("at");
    next.scrollIntoView({ block: "nearest" });
    next.querySelector("a")?.focus();
  };
  const help = document.getElementById("help");
  document.getElementById("keys").addEventListener("click", () => help.showModal());
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || help.open) return;
    if (event.target.matches("input, select, textarea")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const act = {
      "/": () => document.querySelector("main input[type=search]")?.focus(),
      j: () => move(1), k: () => move(-1), "?": () => help.showModal(),
      u: () => { const up = document.querySelector("[data-up]"); if (up) location.assign(up.dataset.up); },
    }[event.key];
    if (act) { event.preventDefault(); act(); }
  });

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    const name = button.textContent;
    try { await navigator.clipboard.writeText(button.dataset.copy); button.textContent = "Copied"; }
    catch { button.textContent = "Not copied"; }
    setTimeout(() => { button.textContent = name; }, 1200);
  });

  // ── charts ──
  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const looks = {
    spent: { stroke: "--accent", fill: "--wash", width: 2 },
    reserved: { stroke: "--warn", dash: [4, 3], width: 1.5 },
    budget: { stroke: "--soft", dash: [2, 4], width: 1 },
  };
  const dollars = (value) => value === null ? "" : `$${value.toFixed(value && Math.abs(value) < 0.1 ? 4 : 2)}`;
  const clock = (value) => value < 60 ? `${+value.toFixed(1)}s` : value < 3600
    ? `${Math.floor(value / 60)}m${value % 60 ? ` ${Math.round(value % 60)}s` : ""}`
    : `${+(value / 3600).toFixed(1)}h`;
  class Chart extends HTMLElement {
    static observedAttributes = ["data-chart"];
    connectedCallback() {
      const root = this.shadowRoot || this.attachShadow({ mode: "open" });
      if (!root.firstChild) {
        const sheet = document.createElement("link");
        sheet.rel = "stylesheet";
        sheet.href = [...document.styleSheets].map((one) => one.href || "").find((one) => one.includes("uPlot"));
        this.box = document.createElement("div");
        root.append(sheet, this.box);
        new ResizeObserver(() => this.draw()).observe(this);
        matchMedia("(prefers-color-scheme:dark)").addEventListener("change", () => this.draw());
      }
      this.draw();
    }
    attributeChangedCallback() { if (this.box) this.draw(); }
    draw() {
      const { x, lines } = JSON.parse(this.dataset.chart), size = { width: this.clientWidth, height: this.clientHeight };
      if (!size.width) return;
      const data = [x, ...lines.map((line) => line[2])];
      const axis = { stroke: color("--soft"), grid: { stroke: color("--line"), width: 1 },
        ticks: { show: false }, font: "11px system-ui, sans-serif" };
      this.plot?.destroy();
      this.plot = new uPlot({
        ...size, legend: { show: false }, cursor: { show: false }, padding: [8, 24, 0, 0],
        scales: { x: { time: false }, y: { range: (plot, low, high) => [0, high > 0 ? high * 1.08 : 1] } },
        axes: [{ ...axis, size: 30, values: (plot, all) => all.map(clock) },
          { ...axis, size: 62, values: (plot, all) => all.map(dollars) }],
        series: [{}, ...lines.map(([, style]) => {
          const { stroke, fill, ...rest } = looks[style] || looks.spent;
          return { ...rest, stroke: color(stroke), fill: fill && color(fill), points: { show: false } };
        })],
      }, data, this.box);
    }
  }
  customElements.define("ff-chart", Chart);
  tick();
  connect();
})();
