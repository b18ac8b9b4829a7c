// CSS for the page of pictures: a responsive grid.
#pragma once

#include <string_view>

namespace fovea::search {

inline constexpr std::string_view kPageStyle = R"css(
section {
  display: grid; grid-template-columns: minmax(0, 15rem) minmax(0, 1fr); gap: 1.75rem;
  padding: 1.5rem 0 1.75rem; border-top: 1px solid var(--line);
}
section.plain { grid-template-columns: minmax(0, 1fr); }
.query { position: sticky; top: 1.25rem; align-self: start; }
.grid {
  display: grid; grid-template-columns: repeat(auto-fill, minmax(11.5rem, 1fr)); gap: 1rem;
  margin: 0; padding: 0; list-style: none;
}
.grid li { display: grid; }
figure {
  display: flex; flex-direction: column; margin: 0; overflow: hidden; background: var(--card); border: 1px solid var(--line);
  border-radius: 10px;
}
.query figure, figure.kept { border-color: var(--accent); box-shadow: 0 0 0 1px var(--accent); }
a { color: inherit; text-decoration: none; }
figure a { display: block; }
a:focus-visible { outline: 3px solid var(--accent); outline-offset: -3px; }
figure a:hover img { opacity: 0.85; }
.tile {
  display: grid; place-items: center; position: relative; width: 100%; aspect-ratio: 4 / 3;
  background: var(--tile);
}
.tile img { position: absolute; inset: 0; width: 100%; height: 100%; object-fit: contain; }
.missing { padding: 0.75rem; text-align: center; color: var(--soft); font-size: 0.8rem; }
.missing span, .name, .folder {
  display: -webkit-box; -webkit-box-orient: vertical; -webkit-line-clamp: 4; overflow: hidden;
  overflow-wrap: anywhere;
}
.folder { -webkit-line-clamp: 2; }
.name { -webkit-line-clamp: 4; font-size: 0.87rem; font-weight: 550; }
figcaption {
  display: flex; flex: 1; flex-direction: column; padding: 0.6rem 0.7rem 0.7rem; font-size: 0.78rem;
}
.folder, .fact { color: var(--soft); }
.fact { display: block; font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
.score {
  display: flex; align-items: center; gap: 0.5rem; margin-top: auto; padding-top: 0.4rem;
  font-variant-numeric: tabular-nums;
}
.bar { flex: 1; height: 4px; border-radius: 2px; background: var(--line); overflow: hidden; }
.bar i { display: block; min-width: 2px; height: 100%; background: var(--accent); }
details li { margin: 0.35rem 0; overflow-wrap: anywhere; }
details a { text-decoration: underline; }
details .fact { display: inline; margin-left: 0.6em; }
@media (max-width: 44rem) {
  section { grid-template-columns: minmax(0, 1fr); gap: 1.1rem; }
  .query { position: static; max-width: 20rem; }
  .grid { grid-template-columns: repeat(auto-fill, minmax(9.5rem, 1fr)); gap: 0.7rem; }
}
@media print { .query { position: static; } figure { break-inside: avoid; } }
)css";

}  // namespace fovea::search
