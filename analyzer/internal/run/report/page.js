
"use strict";
// Shows what is under the pointer. All of it is in the tables as well.
(() => {
  const data = JSON.parse(document.getElementById("tips").textContent);
  const tip = document.getElementById("tip");
  const rows = data.rows.map((text) => {
    let states = "";
    for (const [, n, state] of text.matchAll(/(\d+)(\D)/g)) states += state.repeat(Number(n));
    return states;
  });
  for (const plot of document.querySelectorAll("[data-tips]")) {
    const kind = plot.dataset.tips;
    const columns = data.columns.length;
    const lines = kind === "matrix" ? rows.length : 1;
    const cursor = document.createElement("div");
    cursor.className = "cursor";
    cursor.hidden = true;
    plot.append(cursor);
    plot.addEventListener("pointermove", (event) => {
      const box = plot.getBoundingClientRect();
      const x = Math.floor((event.clientX - box.left) / box.width * columns);
      const y = Math.floor((event.clientY - box.top) / box.height * lines);
      if (x < 0 || x >= columns || y < 0 || y >= lines) return;
      const text = kind === "matrix" ? data.labels[y] + "\n" + data.states[rows[y][x]] : data.charts[kind][x];
      tip.textContent = data.columns[x] + "\n" + text;
      tip.hidden = false;
      const left = Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 8);
      const below = event.clientY + 18;
      const top = below + tip.offsetHeight > window.innerHeight ? event.clientY - tip.offsetHeight - 10 : below;
      tip.style.left = Math.max(8, left) + "px";
      tip.style.top = Math.max(8, top) + "px";
      cursor.hidden = false;
      cursor.style.left = 100 * x / columns + "%";
      cursor.style.width = 100 / columns + "%";
      cursor.style.top = 100 * y / lines + "%";
      cursor.style.height = 100 / lines + "%";
    });
    plot.addEventListener("pointerleave", () => { tip.hidden = cursor.hidden = true; });
  }
  document.documentElement.dataset.ready = "yes";
})();
