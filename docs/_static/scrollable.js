// Boxes that scroll can be reached by keyboard; those that don't are no stop.
function reachable() {
  for (const box of document.querySelectorAll("pre, .table-wrapper, .math")) {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
  }
}
addEventListener("load", reachable);
addEventListener("resize", reachable);
