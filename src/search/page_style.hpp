// The style sheet of the page: a responsive grid, light or dark as the reader's system is.
#pragma once

#include <string_view>

namespace fovea::search {

inline constexpr std::string_view kPageStyle = R"css(
:root {
  color-scheme: light dark;
  --paper: #f6f5f2; --card: #fff; --tile: #ecebe6; --ink: #1d1d1b; --soft: #63625d;
  --line: #dfddd6; --accent: #0b6e6e; --on-accent: #fff; --badge: #f3e3bd; --on-badge: #5c4408;
  --copy: #dbe6f5; --on-copy: #1c4273;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #141516; --card: #1d1f20; --tile: #101112; --ink: #ecebe8; --soft: #a3a29c;
    --line: #303335; --accent: #5cc7c2; --on-accent: #06201f; --badge: #40351a; --on-badge: #f0d58c;
    --copy: #1e3350; --on-copy: #a9cdf7;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; max-width: 90rem; padding: 2.25rem clamp(0.9rem, 4vw, 3rem) 3rem;
  background: var(--paper); color: var(--ink);
  font: 15px/1.45 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif;
}
header { margin-bottom: 1.75rem; }
h1 { margin: 0; font-size: 1.6rem; font-weight: 650; letter-spacing: -0.015em; }
h1, header p { overflow-wrap: anywhere; }
header p { margin: 0.35rem 0 0; color: var(--soft); }
section {
  display: grid; grid-template-columns: minmax(0, 15rem) minmax(0, 1fr); gap: 1.75rem;
  padding: 1.5rem 0 1.75rem; border-top: 1px solid var(--line);
}
section.plain { grid-template-columns: minmax(0, 1fr); }
.query { position: sticky; top: 1.25rem; align-self: start; }
h2 { margin: 0 0 0.75rem; font-size: 1rem; font-weight: 600; overflow-wrap: anywhere; }
h2 span { margin-left: 0.4em; color: var(--soft); font-size: 0.85rem; font-weight: 400; }
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
.badge {
  display: inline-block; align-self: start; margin: 0 0 0.3rem; padding: 0.05rem 0.5rem; border-radius: 1rem;
  background: var(--badge); color: var(--on-badge); font-size: 0.72rem; font-weight: 600;
}
.badge.copy { background: var(--copy); color: var(--on-copy); }
.badge.keep { background: var(--accent); color: var(--on-accent); }
.folder, .fact { color: var(--soft); }
.fact { display: block; font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
.score {
  display: flex; align-items: center; gap: 0.5rem; margin-top: auto; padding-top: 0.4rem;
  font-variant-numeric: tabular-nums;
}
.bar { flex: 1; height: 4px; border-radius: 2px; background: var(--line); overflow: hidden; }
.bar i { display: block; min-width: 2px; height: 100%; background: var(--accent); }
details { margin-top: 1rem; font-size: 0.85rem; }
summary { cursor: pointer; color: var(--accent); font-weight: 600; }
details li { margin: 0.35rem 0; overflow-wrap: anywhere; }
details a { text-decoration: underline; }
details .fact { display: inline; margin-left: 0.6em; }
footer {
  margin-top: 1.5rem; padding-top: 1rem; border-top: 1px solid var(--line);
  color: var(--soft); font-size: 0.8rem;
}
@media (max-width: 44rem) {
  section { grid-template-columns: minmax(0, 1fr); gap: 1.1rem; }
  .query { position: static; max-width: 20rem; }
  .grid { grid-template-columns: repeat(auto-fill, minmax(9.5rem, 1fr)); gap: 0.7rem; }
}
@media print { .query { position: static; } figure { break-inside: avoid; } }
)css";

}  // namespace fovea::search
