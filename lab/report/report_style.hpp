// What the report adds to the style of all pages: tables, charts, bars and the tree's dots.
#pragma once

#include <string_view>

namespace fovea::lab::report {

inline constexpr std::string_view kStyle = R"css(
:root {
  --good: #1f7a3d; --bad: #b3261e; --blue: #0072b2;
  --c0: #0072b2; --c1: #2a9d8f; --c2: #c8553d; --c3: #e0a100; --c4: #8f7cc0; --c5: #b9b6ab; --c6: #dcdad2;
  --faster: #0b6e6e; --bit-faster: #55a9a5; --alike: #b9b6ab; --bit-slower: #e3a586; --slower: #c8553d;
}
@media (prefers-color-scheme: dark) {
  :root {
    --good: #7bd394; --bad: #ff9a8f; --blue: #56b4e9;
    --c0: #4fa8dc; --c1: #4cc2b2; --c2: #e27a63; --c3: #e9b93c; --c4: #a996dc; --c5: #6c6d68; --c6: #3b3e40;
    --faster: #5cc7c2; --bit-faster: #3a8582; --alike: #7a7b76; --bit-slower: #a8664b; --slower: #ef8a72;
  }
}
section { padding: 1.5rem 0 1rem; border-top: 1px solid var(--line); }
h2 { font-size: 1.2rem; }
h3 { margin: 1.2rem 0 0.4rem; font-size: 1rem; }
p { max-width: 60rem; overflow-wrap: anywhere; }
nav { display: flex; flex-wrap: wrap; gap: 0.4rem 1.1rem; margin-top: 0.9rem; }
a { color: var(--accent); font-weight: 600; text-decoration: none; }
a:hover, a:focus-visible { text-decoration: underline; }
.grid { display: grid; gap: 1.1rem; align-items: start; }
.wide { display: block; columns: 28rem 2; column-gap: 1.1rem; }
.wide > figure { margin-bottom: 1.1rem; break-inside: avoid; }
.small { grid-template-columns: repeat(auto-fill, minmax(min(17rem, 100%), 1fr)); gap: 0.8rem; }
figure {
  min-width: 0; margin: 0; padding: 0.9rem 1rem; background: var(--card); border: 1px solid var(--line);
  border-radius: 10px;
}
section > figure { margin-bottom: 1rem; }
figcaption { font-weight: 600; overflow-wrap: anywhere; }
small { color: var(--soft); font-size: 0.78rem; font-weight: 400; overflow-wrap: anywhere; }
figcaption small, td small { display: block; }
.small figcaption { font-size: 0.85rem; }
.small p { margin: 0.1rem 0; font-size: 0.82rem; }
.better { color: var(--good); font-weight: 600; } .worse { color: var(--bad); font-weight: 600; }
.scroll { overflow-x: auto; margin-top: 0.6rem; }
table { width: 100%; border-collapse: collapse; font-size: 0.82rem; font-variant-numeric: tabular-nums; }
caption { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
th, td { padding: 0.3rem 0.55rem 0.3rem 0; text-align: left; vertical-align: top; border-top: 1px solid var(--line); }
th { border-top: 0; color: var(--soft); font-weight: 600; }
td { overflow-wrap: break-word; }
.n { text-align: right; }
td.n { white-space: nowrap; }
.badge { margin: 0; background: var(--tile); color: var(--ink); white-space: nowrap; }
.badge.good { background: var(--good); color: var(--paper); }
.badge.bad { background: var(--bad); color: var(--paper); }
details .scroll { max-height: 40rem; overflow-y: auto; }
code { font-size: 0.9em; }
svg { display: block; width: 100%; max-width: 35rem; height: auto; margin-top: 0.4rem; }
svg text { font: 12px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; fill: var(--ink); }
svg .tick { fill: var(--soft); font-size: 11px; }
svg .name { font-weight: 600; }
polyline { fill: none; }
.axis { stroke: var(--line); } .roof { stroke: var(--ink); stroke-width: 1.6; }
.leader { stroke: var(--soft); stroke-width: 0.7; }
.course { stroke: var(--blue); stroke-width: 1.5; } .whisker { stroke: var(--soft); }
.ours { fill: var(--blue); stroke: var(--card); }
.peer { fill: var(--card); fill-opacity: 0.4; stroke: var(--bad); stroke-width: 1.4; }
.role { margin: 0.55rem 0; font-size: 0.85rem; }
.role > span { display: block; overflow-wrap: anywhere; }
.role > small { display: block; }
.bar { display: flex; height: 14px; margin: 0.15rem 0; border-radius: 3px; overflow: hidden; background: var(--tile); }
.bar i { height: 100%; border-right: 1px solid var(--card); }
.legend {
  display: flex; flex-wrap: wrap; gap: 0.25rem 1.1rem; margin: 0 0 0.9rem; padding: 0; list-style: none; font-size: 0.82rem;
}
.legend i {
  display: inline-block; width: 0.75rem; height: 0.75rem; margin-right: 0.4rem; border-radius: 3px; vertical-align: -0.05rem;
}
.c0 { background: var(--c0); } .c1 { background: var(--c1); } .c2 { background: var(--c2); } .c3 { background: var(--c3); }
.c4 { background: var(--c4); } .c5 { background: var(--c5); } .c6 { background: var(--c6); }
.findings { margin: 0.6rem 0; padding-left: 1.2rem; font-size: 0.88rem; }
.findings li { margin: 0.35rem 0; overflow-wrap: anywhere; }
.edge { stroke: var(--soft); stroke-opacity: 0.22; } .edge.best { stroke: var(--accent); stroke-width: 2; stroke-opacity: 1; }
.node { stroke: var(--card); }
.faster { fill: var(--faster); background: var(--faster); }
.bit-faster { fill: var(--bit-faster); background: var(--bit-faster); }
.alike, .untimed { fill: var(--alike); background: var(--alike); }
.bit-slower { fill: var(--bit-slower); background: var(--bit-slower); }
.slower { fill: var(--slower); background: var(--slower); }
.invalid { fill: var(--card); stroke: var(--soft); stroke-dasharray: 2 2; }
.legend .invalid { border: 1px dashed var(--soft); }
.node.kept { stroke: var(--ink); stroke-width: 2; }
.legend .kept { border: 2px solid var(--ink); }
#left-out li { overflow-wrap: anywhere; }
@media (max-width: 40rem) {
  figure { padding: 0.75rem; }
  .wide svg text { font-size: 13.5px; }
  .wide svg .tick { font-size: 12.5px; }
  th, td { padding-right: 0.4rem; }
  .lists thead { display: none; }
  .lists tr { display: block; padding: 0.5rem 0; border-top: 1px solid var(--line); }
  .lists td, .lists td.n { display: block; padding: 0.05rem 0 0.05rem 7.5rem; border: 0; text-align: left; white-space: normal; }
  .lists td::before { content: attr(data-of); float: left; width: 7rem; margin-left: -7.5rem; color: var(--soft); }
  .lists td:empty { display: none; }
}
@media print { figure { break-inside: avoid; } }
)css";

}  // namespace fovea::lab::report
