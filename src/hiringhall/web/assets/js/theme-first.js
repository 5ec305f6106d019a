// Not a module, so that it runs before the page is painted: the chosen theme is there from the first frame.
(() => {
  const stored = localStorage.getItem("hall.theme");
  if (stored === "light" || stored === "dark") document.documentElement.dataset.theme = stored;
})();
