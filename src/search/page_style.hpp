// The style sheet of the page: a responsive grid, light or dark as the reader's system is.
#pragma once

#include <string_view>

namespace fovea::search {

inline constexpr std::string_view kPageStyle = R"css(
:root {
  color-scheme: light dark;
  --paper: #f6f5f2; --card: #fff; --tile: #ecebe6; --ink: #1d1d1b; --soft: #6b6a65;
  --line: #dfddd6; --accent: #0b6e6e;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #141516; --card: #1d1f20; --tile: #101112; --ink: #ecebe8; --soft: #9b9a95;
    --line: #303335; --accent: #5cc7c2;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; max-width: 90rem; padding: 2.5rem clamp(1rem, 4vw, 3rem) 3rem;
  background: var(--paper); color: var(--ink);
  font: 15px/1.45 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif;
}
header { margin-bottom: 2rem; }
h1 { margin: 0; font-size: 1.6rem; font-weight: 650; letter-spacing: -0.015em; }
header p, footer { margin: 0.35rem 0 0; color: var(--soft); overflow-wrap: anywhere; }
section {
  display: grid; grid-template-columns: minmax(0, 15rem) minmax(0, 1fr); gap: 1.75rem;
  padding: 1.75rem 0; border-top: 1px solid var(--line);
}
section.plain { grid-template-columns: minmax(0, 1fr); }
.query { position: sticky; top: 1.25rem; align-self: start; }
h2, .count {
  margin: 0 0 0.6rem; font-size: 0.72rem; font-weight: 600; letter-spacing: 0.08em;
  text-transform: uppercase; color: var(--soft);
}
.query h2 { color: var(--accent); }
.grid {
  display: grid; grid-template-columns: repeat(auto-fill, minmax(9.5rem, 1fr)); gap: 1rem;
  margin: 0; padding: 0; list-style: none;
}
figure {
  margin: 0; overflow: hidden; background: var(--card); border: 1px solid var(--line);
  border-radius: 10px;
}
.query figure { border: 2px solid var(--accent); }
.tile {
  display: grid; place-items: center; position: relative; width: 100%; aspect-ratio: 4 / 3;
  background: var(--tile);
}
.tile img { position: absolute; inset: 0; width: 100%; height: 100%; object-fit: contain; }
.missing { padding: 0.75rem; text-align: center; color: var(--soft); font-size: 0.8rem; }
.missing span {
  display: -webkit-box; -webkit-box-orient: vertical; -webkit-line-clamp: 4; overflow: hidden;
  overflow-wrap: anywhere;
}
figcaption { padding: 0.55rem 0.7rem 0.65rem; }
.name { display: block; font-size: 0.85rem; font-weight: 550; overflow-wrap: anywhere; }
.folder {
  display: block; font-size: 0.75rem; color: var(--soft); overflow: hidden; white-space: nowrap;
  text-overflow: ellipsis;
}
.score {
  display: flex; align-items: center; gap: 0.5rem; margin-top: 0.4rem; font-size: 0.8rem;
  font-variant-numeric: tabular-nums;
}
.bar { flex: 1; height: 4px; border-radius: 2px; background: var(--tile); overflow: hidden; }
.bar i { display: block; height: 100%; background: var(--accent); }
footer { margin-top: 1.5rem; padding-top: 1rem; border-top: 1px solid var(--line); font-size: 0.8rem; }
@media (max-width: 44rem) {
  section { grid-template-columns: minmax(0, 1fr); gap: 1.1rem; }
  .query { position: static; max-width: 20rem; }
  .grid { grid-template-columns: repeat(auto-fill, minmax(7.5rem, 1fr)); gap: 0.7rem; }
}
@media print { .query { position: static; } figure { break-inside: avoid; } }
)css";

}  // namespace fovea::search
