"use strict";
const byId = id => document.getElementById(id), data = JSON.parse(byId("data").textContent);
const make = (made, attributes, ...children) => {
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
};
const html = (tag, attributes = {}, ...children) => make(document.createElement(tag), attributes, ...children);
const svg = (tag, attributes, ...children) => make(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, ...children);
const AXES = ["task", "protocol", "budget"];
const mean = values => values.reduce((sum, each) => sum + each, 0) / values.length;
const unique = values => [...new Set(values)];

// Texts that dgpbench.report.html.packed compressed
async function unpacked(element) {
  const bytes = Uint8Array.from(atob(element.textContent), letter => letter.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
}
const library = new Blob([await unpacked(byId("library"))], {type: "text/javascript"});
const {jQuery} = await import(URL.createObjectURL(library)), {ext, render, util} = jQuery.fn.dataTable;

// Tables. Cells without a number stay last in both directions.
const last = order => (a, b) => Number.isNaN(a) - Number.isNaN(b) || order * (a - b);
ext.type.order["score-pre"] = text => text === "" || text === null ? NaN : Number(text);
ext.type.order["score-asc"] = last(1);
ext.type.order["score-desc"] = last(-1);
const sortable = (table, options = {}) => jQuery(table).DataTable({
  paging: false, info: false, autoWidth: false, order: [], layout: {topStart: null, topEnd: null, bottomStart: null, bottomEnd: null},
  columnDefs: [{targets: "number", type: "score"}], ...options,
});
document.querySelectorAll("section > .scroll > table.sortable").forEach(table => sortable(table));
document.addEventListener("toggle", async ({target}) => {
  if (target.id === "all-runs") return allRuns();
  target.querySelectorAll("table.sortable:not(.dataTable)").forEach(table => sortable(table));
  for (const picture of target.querySelectorAll(".packed")) picture.outerHTML = await unpacked(picture);
}, true);

// All runs; a number's link lists the runs behind it alone.
const form = byId("choice"), [folder, link] = data.records, metrics = data.metrics, group = run => data.groups[run[0]];
const record = path => `${link}/${path.replace(/:\d+$/, "").split("/").map(encodeURIComponent).join("/")}${path.startsWith("runs/") ? "/record.json" : ""}`;
const text = {render: render.text()}, number = {type: "score", className: "number"};
let runs = null;  // as built by allRuns: thousands of rows wait until they are needed
function allRuns() {
  const metric = form.metric.value;
  runs ??= sortable(byId("run-list"), {
    data: data.runs, deferRender: true, paging: true, pageLength: 25, info: true, layout: {topStart: "info", topEnd: "search", bottomStart: "pageLength", bottomEnd: "paging"},
    columnDefs: [], columns: [
      {title: "data set", data: run => group(run).dataset, ...text},
      {title: "method", data: run => group(run).method, ...text},
      {title: "split", data: run => run[1], ...number},
      {title: "status", data: run => run[3] ? `${run[2]}: ${run[3]}` : run[2], className: "long", ...text},
      {title: metric, data: run => run[8][metrics.indexOf(form.metric.value)] ?? "", ...number},
      {title: "seconds", data: run => run[4], ...number},
      {title: "hash", data: run => run[5], ...text},
      {title: "commit", data: run => run[6], ...text},
      {title: "command", data: run => `${group(run).command} split=${run[1]}`, className: "long command", ...text},
      {title: "record", data: run => run[7], className: "long path", render: (path, type) => type === "display" ? html("a", {href: record(path)}, `${folder}/${path}`) : path},
      {title: "changed", data: run => group(run).changed, className: "long", ...text},
      ...AXES.map(axis => ({title: axis, data: run => group(run)[axis], ...text})),
    ],
  });
  if (runs.column(4).title() !== metric) {
    runs.column(4).title(metric);
    runs.rows().invalidate("data").draw(false);
  }
  return runs;
}
function list(groups, what) {
  byId("all-runs").open = true;
  allRuns().search.fixed("behind", groups && ((_, run) => groups.includes(run[0])));
  runs.search("").order(groups ? [2, "asc"] : []).draw();
  byId("filter").hidden = groups === null;
  byId("filter").firstElementChild.textContent = `Only the runs behind ${what} are shown.`;
}
document.addEventListener("click", ({target}) => {
  const number = target.closest("a[data-groups]");
  if (number) list(number.dataset.groups.split(" "), number.textContent);
});
byId("filter").lastElementChild.addEventListener("click", () => list(null));

// The leaderboard
const score = (row, dataset) => row.groups[dataset]?.scores[form.metric.value];
const isWhole = datasets => row => datasets.every(each => typeof score(row, each)?.[1] === "number");
function rows() {  // a row for each method with its groups by data set, at the chosen task, protocol and budget
  const found = {};
  for (const [id, each] of Object.entries(data.groups)) {
    if (!each.scores || each.changed && !form.changed.checked || AXES.some(axis => each[axis] !== form[axis].value)) continue;
    const row = found[JSON.stringify([each.method, each.changed])] ??= {name: `${each.method} ${each.changed}`.trim(), groups: {}};
    row.groups[each.dataset] = {id, ...each};
  }
  return Object.values(found);
}
function fill(select, names) {
  const kept = names.includes(select.value) ? select.value : names[0];
  select.replaceChildren(...names.map(name => new Option(name, name, false, name === kept)));
}
function choose() {
  let boards = data.boards;
  AXES.forEach((axis, place) => {
    fill(form[axis], unique(boards.map(board => board[place])));
    boards = boards.filter(board => board[place] === form[axis].value);
  });
  const all = rows(), groups = all.flatMap(row => Object.values(row.groups));
  fill(form.metric, unique([...metrics.filter(name => groups.some(each => each.scores[name][0] !== null)), ...metrics]));
  // first the data sets of the largest block of methods and data sets with all splits, for which the most complete ones are tried
  const datasets = unique(groups.map(each => each.dataset)), methods = some => all.filter(isWhole(some)).length;
  const ordered = [...datasets].sort((a, b) => methods([b]) - methods([a]));
  const blocks = ordered.map((_, place) => ordered.slice(0, place + 1));
  const largest = blocks.reduce((best, some) => some.length * methods(some) >= best.length * methods(best) ? some : best, []);
  byId("datasets").replaceChildren(byId("datasets").firstElementChild, ...datasets.sort().map(name => {
    const box = html("input", {type: "checkbox", name: "dataset", value: name});
    box.checked = largest.includes(name);
    return html("label", {}, box, ` ${name}`);
  }));
}

function rank(ranked, datasets) {  // ties share the mean of their places; ranks are by data set, mean rank over them
  for (const row of ranked) row.ranks = datasets.map(dataset => {
    const losses = ranked.map(each => score(each, dataset)[1]), own = score(row, dataset)[1];
    return losses.filter(loss => loss < own).length + (losses.filter(loss => loss === own).length + 1) / 2;
  });
  for (const row of ranked) row.rank = mean(row.ranks);
  ranked.sort((a, b) => a.rank - b.rank);
}

let board = null;
function show() {
  const datasets = [...form.querySelectorAll("[name=dataset]:checked")].map(box => box.value), metric = form.metric.value;
  const all = rows().filter(row => datasets.some(each => row.groups[each])), ranked = datasets.length ? all.filter(isWhole(datasets)) : [];
  rank(ranked, datasets);
  for (const row of ranked) {
    const seconds = datasets.map(each => row.groups[each].seconds);
    row.seconds = seconds.includes(null) ? null : mean(seconds);
  }
  const head = (name, more = {class: "number"}) => html("th", {scope: "col", ...more}, name);
  const cell = (value, text = value) => html("td", {class: "number", "data-order": value ?? ""}, text ?? "");
  const body = [...ranked, ...all.filter(row => !ranked.includes(row))].map(row => html("tr", {},
    html("th", {scope: "row"}, row.name), cell(row.rank, row.rank?.toFixed(2)), cell(row.seconds, row.seconds?.toFixed(1)),
    ...datasets.map(each => score(row, each) ? cell(score(row, each)[0], html("a", {href: "#runs", "data-groups": row.groups[each].id}, score(row, each)[2])) : cell()),
  ));
  board?.destroy();
  byId("board").replaceChildren(html("caption", {}, `${metric} (${data.units[metric]}): ${AXES.map(axis => form[axis].value).join(", ")}`),
    html("thead", {}, html("tr", {}, head("method", {}), head("mean rank"), head("seconds"), ...datasets.map(each => head(each)))), html("tbody", {}, ...body));
  board = sortable(byId("board"), {order: [[1, "asc"]]});
  search();
  byId("summary").textContent = `${ranked.length} of ${all.length} methods have every split of ${datasets.length === 1 ? `the data set ${datasets[0]}` : `the ${datasets.length} chosen data sets`} and are ranked.`;
  byId("ranks").replaceChildren(...differences(ranked, datasets.length));
  byId("pareto").replaceChildren(...pareto(ranked, datasets));
  if (runs) allRuns();
}
const search = () => board.column(0).search(form.search.value).draw();
form.addEventListener("submit", event => event.preventDefault());
form.addEventListener("input", ({target}) => {
  if (target.name === "search") return search();
  if (AXES.includes(target.name) || target.name === "changed") choose();
  show();
});

// Pictures
const line = (x1, y1, x2, y2, name = "") => svg("line", {x1, y1, x2, y2, class: name});
const label = (x, y, anchor, text) => svg("text", {x, y, "text-anchor": anchor}, text);
const picture = (height, name, ...children) => html("div", {class: "picture", tabindex: 0}, svg("svg", {viewBox: `0 0 860 ${height}`, role: "img", "aria-label": name}, ...children));
const note = text => html("p", {class: "note"}, text);

function differences(ranked, blocks) {  // Demsar (2006), Fig. 1; sorted by mean rank
  const size = ranked.length, bound = data.nemenyi[size] / Math.sqrt(blocks);
  if (size < 3 || blocks < 2) return [note("Critical differences need three ranked methods and two data sets.")];
  const squares = ranked.flatMap(row => row.ranks).reduce((sum, each) => sum + each ** 2, 0), middle = (size + 1) / 2;
  const spread = ranked.reduce((sum, row) => sum + (blocks * (row.rank - middle)) ** 2, 0);
  const statistic = (size - 1) * spread / (squares - blocks * size * middle ** 2) || 0;  // Friedman's, with its correction for ties
  const x = value => 260 + 340 * (value - 1) / (size - 1), bars = [], half = Math.ceil(size / 2);
  ranked.forEach((row, first) => {
    const end = ranked.findLastIndex(each => each.rank - row.rank <= bound);
    if (end > Math.max(first, bars.at(-1)?.[1] ?? 0)) bars.push([first, end]);
  });
  const top = 40 + 7 * bars.length, place = index => top + 18 * (index < half ? index + 1 : size - index);
  const names = ranked.map((row, index) => {
    const y = place(index), side = index < half ? 250 : 610;
    return svg("g", {}, svg("polyline", {points: `${x(row.rank)},30 ${x(row.rank)},${y} ${side},${y}`}), label(side + (index < half ? -5 : 5), y + 4, index < half ? "end" : "start", `${row.name} (${row.rank.toFixed(2)})`));
  });
  const ticks = ranked.map((_, index) => index + 1).filter(each => size <= 12 || each % 5 === 0 || each === 1);
  const joined = bars.map(([first, end]) => `${ranked[first].name} to ${ranked[end].name}`);
  return [picture(top + 18 * (half + 1), `Mean ranks: ${ranked.map(row => `${row.name} ${row.rank.toFixed(2)}`).join(", ")}`, line(x(1), 30, x(size), 30),
    ...ticks.flatMap(each => [line(x(each), 26, x(each), 30), label(x(each), 20, "middle", each)]), ...names,
    ...bars.map(([first, end], place) => line(x(ranked[first].rank) - 3, 37 + 7 * place, x(ranked[end].rank) + 3, 37 + 7 * place, "bar"))),
    note(`Mean ranks over ${blocks} data sets, 1 is best. Bars join methods that Nemenyi's test does not distinguish at level ${data.level}: ranks at most ${bound.toFixed(2)} apart (${joined.join("; ") || "none"}). ` +
      `Friedman's test of equal ranks: chi-squared ${statistic.toFixed(2)}, critical value ${data.friedman[size].toFixed(2)}; ${statistic > data.friedman[size] ? "the methods differ" : "no difference found"}.`)];
}

function pareto(ranked, datasets) {  // of one data set its scores, of several the mean ranks
  const one = datasets.length === 1, points = ranked.filter(row => row.seconds > 0).map(row => ({...row, loss: one ? score(row, datasets[0])[1] : row.rank}));
  if (points.length < 2) return [note("This picture needs two ranked methods with seconds.")];
  points.sort((a, b) => a.seconds - b.seconds || a.loss - b.loss);
  const front = points.filter((each, place) => points.slice(0, place).every(before => before.loss > each.loss));
  // outliers beyond Tukey's outer fence would flatten the others
  const losses = points.map(each => each.loss).sort((a, b) => a - b);
  const quantile = (place, low = Math.floor(place)) => losses[low] + (place - low) * ((losses[low + 1] ?? losses[low]) - losses[low]);
  const [first, third] = [0.25, 0.75].map(share => quantile(share * (losses.length - 1))), fence = third + 3 * (third - first);
  const near = points.filter(each => each.loss <= fence), far = points.filter(each => each.loss > fence);
  const logs = near.map(each => Math.log10(each.seconds)), low = Math.min(...logs) - 0.1, high = Math.max(...logs) + 0.1;
  const best = losses[0], worst = Math.max(...near.map(each => each.loss)), shown = each => one ? score(each, datasets[0])[0].toPrecision(4) : each.loss.toFixed(2);
  const x = seconds => 70 + 740 * (Math.log10(seconds) - low) / (high - low), y = loss => 50 + 270 * (loss - best) / (worst - best || 1);
  const steps = high - low > 3 ? [1] : [1, 2, 5], powers = [-4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6];
  const ticks = powers.flatMap(power => steps.map(step => step * 10 ** power)).filter(each => x(each) >= 70 && x(each) <= 810), lines = [];
  const marks = near.map(each => {
    const isFront = front.includes(each), at = x(each.seconds), left = at > 220, place = y(each.loss);
    const shape = isFront ? svg("rect", {x: at - 5, y: place - 5, width: 10, height: 10}) : svg("circle", {cx: at, cy: place, r: 4});
    shape.append(svg("title", {}, `${each.name}: ${shown(each)}, ${each.seconds.toFixed(1)} s`));
    if (!isFront) return shape;
    let beside = place + 4;  // no point is faster and better, to the left of it; labels are on lines of their own
    while (lines.some(other => Math.abs(other - beside) < 13)) beside += 13;
    lines.push(beside);
    return svg("g", {}, shape, label(at + (left ? -9 : 9), beside, left ? "end" : "start", each.name));
  });
  const what = one ? `${form.metric.value} on ${datasets[0]}` : `mean rank in ${form.metric.value} over ${datasets.length} data sets`, ends = near.filter(each => [best, worst].includes(each.loss));
  return [picture(370, `${what} against seconds`, line(70, 335, 810, 335), line(70, 25, 70, 335), label(440, 365, "middle", "seconds of a run"), label(70, 12, "start", `${what}: better is higher`),
    ...ticks.flatMap(each => [line(x(each), 335, x(each), 339), label(x(each), 351, "middle", each)]), ...ends.flatMap(each => [line(66, y(each.loss), 70, y(each.loss)), label(62, y(each.loss) + 4, "end", shown(each))]), ...marks),
    note(`Squares: no other method is both faster and better (${front.map(each => each.name).join(", ")}). ${far.length ? `Not drawn, far worse: ${far.map(each => `${each.name} (${shown(each)})`).join(", ")}.` : ""}`)];
}

choose();
show();
document.documentElement.dataset.ready = "";
