(() => {
  "use strict";
  const root = document.documentElement;

  // Charts inside a closed fold have no width yet: they are drawn when it opens.
  const draw = (place, spec) => {
    const options = { mode: "vega-lite", renderer: "svg", actions: false, bind: `#${place.id}-choice` };
    vegaEmbed(place, spec, options).then(
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
  for (const { key, spec } of JSON.parse(document.getElementById("chart-data").textContent)) {
    const place = document.getElementById(key);
    const fold = place.closest("details.folded");
    if (fold && !fold.open) fold.addEventListener("toggle", () => draw(place, spec), { once: true });
    else draw(place, spec);
  }

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

  const search = document.getElementById("search");
  if (search) {
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
  }

  if ("live" in document.body.dataset) {
    let seen = null;
    const look = async () => {
      try {
        const state = await (await fetch("state", { cache: "no-store" })).json();
        document.getElementById("progress").textContent = state.progress;
        if (seen !== null && state.version !== seen) location.reload();
        seen = state.version;
      } catch {
        document.getElementById("progress").textContent = "No longer watched.";
      }
      setTimeout(look, 2000);
    };
    look();
  }
})();
