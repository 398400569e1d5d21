(() => {
  "use strict";
  const root = document.documentElement;

  // Colours are names of the style sheet: one drawing serves light, dark and paper.
  const [ink, line] = ["var(--ink)", "var(--line)"];
  const config = {
    aria: false, // the page has words and a table for each chart instead
    background: "transparent",
    font: "system-ui, sans-serif",
    view: { stroke: "transparent" },
    axis: {
      labelColor: ink, titleColor: ink, gridColor: line, domainColor: line, tickColor: line,
      labelFontSize: 12, titleFontSize: 12, titleFontWeight: "normal",
      labelLimit: 170, labelFlush: false, labelSeparation: 6,
    },
    legend: {
      labelColor: ink, titleColor: ink, orient: "bottom", columns: 1,
      labelFontSize: 12, labelLimit: 320, symbolStrokeWidth: 2, symbolOpacity: 1,
    },
    text: { color: ink },
    range: { category: [1, 2, 3, 4, 5, 6, 7, 8].map((i) => `var(--c${i})`) },
  };

  // Charts inside a closed fold have no width yet: they are drawn when it opens.
  const draw = (place, spec) => {
    const bind = `#${place.id}-choice`;
    vegaEmbed(place, spec, { mode: "vega-lite", renderer: "svg", actions: false, bind, config }).then(
      () => {
        // The label of its place and the table tell what it shows.
        place.querySelector("svg").setAttribute("aria-hidden", "true");
        place.setAttribute("data-drawn", "");
      },
      (error) => {
        console.error(error);
        place.parentElement.querySelector("details").open = true;
      },
    );
  };
  const drawAll = () => {
    for (const { key, spec } of JSON.parse(document.getElementById("chart-data").textContent)) {
      const place = document.getElementById(key);
      const fold = place.closest("details.folded");
      if (fold && !fold.open) fold.addEventListener("toggle", () => draw(place, spec), { once: true });
      else draw(place, spec);
    }
  };

  // A click on a column's name sorts by it; another click turns the order round.
  const value = (row, column) => {
    const text = row.cells[column].textContent.trim();
    const number = parseFloat(text.replace(/[, ]/g, "").replace("−", "-"));
    return Number.isNaN(number) ? text.toLowerCase() : number;
  };
  const compare = (a, b) => {
    if (typeof a === typeof b) return typeof a === "number" ? a - b : a.localeCompare(b);
    return typeof a === "number" ? -1 : 1;
  };
  const makeSortable = (table) => {
    const body = table.tBodies[0];
    if (body.rows.length < 2) return;
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") !== "descending" && column > 0;
        const up = column === 0 && head.getAttribute("aria-sort") === "ascending";
        for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
        const sign = down || up ? -1 : 1;
        head.setAttribute("aria-sort", sign < 0 ? "descending" : "ascending");
        const rows = [...body.rows].sort((a, b) => sign * compare(value(a, column), value(b, column)));
        body.append(...rows);
      });
    });
  };

  const store = (value) => {
    try {
      if (value) localStorage.setItem("noisyteacher-theme", value);
      return localStorage.getItem("noisyteacher-theme");
    } catch {
      return null; // some browsers keep nothing for files
    }
  };
  const button = document.getElementById("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const name = () => (button.textContent = isDark() ? "Light" : "Dark");
  if (store()) root.dataset.theme = store();
  button.hidden = false;
  button.setAttribute("aria-label", "Switch between light and dark");
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    store(root.dataset.theme);
    name();
  });
  system.addEventListener("change", name);
  name();

  const makeSearchable = () => {
    const search = document.getElementById("search");
    if (!search) return;
    const cards = [...document.querySelectorAll("#cards > li")];
    const texts = cards.map((card) => card.textContent.toLowerCase().replace(/\s+/g, " "));
    const list = document.getElementById("cards");
    const more = document.getElementById("more");
    cards.slice(24).forEach((card) => card.classList.add("later"));
    const showFew = (few) => {
      list.classList.toggle("few", few);
      more.hidden = !few;
    };
    more.addEventListener("click", () => {
      showFew(false);
      cards[24].scrollIntoView({ block: "center" });
    });
    showFew(cards.length > 24);
    const filter = () => {
      if (search.value) showFew(false);
      const words = search.value.toLowerCase().trim().replace(/\s+/g, " ");
      let shown = 0;
      cards.forEach((card, i) => {
        card.hidden = !texts[i].includes(words);
        shown += card.hidden ? 0 : 1;
      });
      document.getElementById("found").textContent = `${shown} found`;
    };
    search.addEventListener("input", filter);
    search.form.addEventListener("submit", (event) => event.preventDefault());
    filter();
  };

  const setUp = () => {
    drawAll();
    document.querySelectorAll("table[data-sortable]").forEach(makeSortable);
    makeSearchable();
  };
  setUp();

  // A watched page takes over a newer self in place: what is open stays open, and nothing jumps.
  const takeOver = async () => {
    const text = await (await fetch("./", { cache: "no-store" })).text();
    const content = new DOMParser().parseFromString(text, "text/html").getElementById("content");
    const open = [...document.querySelectorAll("details[open]")].map((one) => one.closest("section, figure")?.id);
    const words = document.getElementById("search")?.value;
    const top = scrollY;
    document.getElementById("content").replaceWith(document.adoptNode(content));
    document.querySelectorAll("details").forEach((one) => {
      const id = one.closest("section, figure")?.id;
      if (id && open.includes(id)) one.open = true;
    });
    if (words) document.getElementById("search").value = words;
    setUp();
    scrollTo(0, top);
  };
  if ("live" in document.body.dataset) {
    let seen = null;
    const bar = document.querySelector("#progress progress");
    const told = document.querySelector("#progress p");
    const look = async () => {
      try {
        const state = await (await fetch("state", { cache: "no-store" })).json();
        told.textContent = state.progress;
        bar.hidden = state.done === null;
        if (state.done !== null) bar.value = state.done;
        if (seen !== null && state.version !== seen) await takeOver();
        seen = state.version;
      } catch {
        told.textContent = "The page is no longer being served.";
      }
      setTimeout(look, 2000);
    };
    look();
  }
})();
