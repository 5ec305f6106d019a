// Auctions: what is announced, who bids, and who was hired and why.

import { get } from "../api.js";
import { fill, h } from "../dom.js";
import { ago, at, due, duration, number, plural } from "../format.js";
import { code, emptyState, localDownloads, pageHead } from "../lists.js";
import { step } from "../steps.js";
import { Table } from "../table.js";

const BIDS_SHOWN = 3;

/** When the bidder would have done it, from the moment of the bid. */
function arrival(bid) {
  return bid.arrives ? ago(bid.arrives) : h("span", { class: "none" }, "–");
}

function bids(auction) {
  if (!auction.bids.length) return h("span", { class: "faint" }, "No bid yet");
  const line = (bid) => h("li", null, h("span", { class: "data clip" }, bid.worker), h("span", { class: "faint" }, bid.skill === null || bid.skill === undefined ? "" : `skill ${bid.skill}`), arrival(bid));
  return h("ul", { class: "bids" }, auction.bids.slice(0, BIDS_SHOWN).map(line), auction.bids.length > BIDS_SHOWN ? h("li", { class: "faint" }, `and ${number(auction.bids.length - BIDS_SHOWN)} more`) : null);
}

const AUCTIONS = [
  { name: "job", label: "Job", first: true, cell: (auction) => h("span", { class: "mono" }, auction.job) },
  { name: "queue", label: "Queue", cell: (auction) => h("a", { class: "plain-link data clip", href: `/queues/${step(auction, "queue")}`, "data-key": "queue" }, auction.queue) },
  { name: "key", label: "Key", cell: (auction) => (auction.key ? h("span", { class: "data clip" }, auction.key) : null) },
  { name: "open", label: "State", cell: (auction) => h("span", { class: `badge tone-${auction.open ? "live" : "quiet"}` }, auction.open ? "Open for bids" : "Not hired yet") },
  { name: "closes", label: "Next step", cell: (auction) => (auction.closes ? h("span", null, auction.open ? "closes " : "announced again ", due(auction.closes)) : h("span", { class: "none" }, "–")) },
  { name: "skill", label: "Skill asked", number: true, cell: (auction) => (auction.skill ? number(auction.skill) : h("span", { class: "none" }, "any")) },
  { name: "bids", label: "Bids", wide: true, cell: bids },
];

const POLICIES = {
  soonest: "it is there soonest",
  best_skill: "it has the best skill",
  sufficient_skill: "its skill suffices, and it is there soonest of those",
  least_waiting: "it has waited longest for work",
};

const HIRINGS = [
  { name: "job", label: "Job", first: true, cell: (hiring) => h("span", { class: "mono" }, hiring.job) },
  { name: "queue", label: "Queue", cell: (hiring) => h("span", { class: "data clip" }, hiring.queue) },
  { name: "worker", label: "Hired", cell: (hiring) => h("span", { class: "data clip" }, hiring.worker) },
  { name: "skill", label: "Skill", number: true, cell: (hiring) => (hiring.skill ? number(hiring.skill) : h("span", { class: "none" }, "–")) },
  { name: "bids", label: "Bids", number: true, cell: (hiring) => number(hiring.bids) },
  { name: "why", label: "Why", wide: true, cell: (hiring) => h("span", { title: hiring.policy }, hiring.bids === 1 ? "it was the only bid" : POLICIES[hiring.policy] ?? `policy ${hiring.policy}`) },
  { name: "arrives", label: "Works after", number: true, cell: (hiring) => (hiring.arrives ? duration(Math.max(0, (Date.parse(hiring.arrives) - Date.parse(hiring.at)) / 1000)) : h("span", { class: "none" }, "–")) },
  { name: "at", label: "When", number: true, cell: (hiring) => at(hiring.at) },
];

export function openAuctions(view) {
  view.title("Auctions");
  const count = h("span");
  const open = new Table({ caption: "Announced jobs", columns: AUCTIONS, key: (auction) => auction.job, href: (auction) => `/jobs/${auction.job}`, empty: () => emptyState("Nothing is announced", "Workers at a hire door bid for jobs: how soon, and how well. Open one:", code("hall serve --door hire=127.0.0.1:7430")) });
  const hired = new Table({ caption: "Latest hirings", columns: HIRINGS, key: (hiring) => `${hiring.at} ${hiring.job}`, href: (hiring) => `/jobs/${hiring.job}`, empty: () => emptyState("Nobody was hired yet", "Who was hired for which job, and why, appears here.") });
  view.main.append(
    pageHead("Auctions", { lead: "Jobs that are announced, the bids for them, and who was hired." }),
    h("div", { class: "list-line" }, count, localDownloads("auctions", () => open.items ?? [])),
    open.node,
    h("div", { class: "list-line section-title" }, h("h2", null, "Latest hirings"), localDownloads("hirings", () => hired.items ?? [])),
    hired.node,
  );
  view.keepFresh(async () => {
    const { items, hirings } = await get("/auctions", null, view.signal);
    fill(count, `${plural(items.length, "announced job")}, ${plural(hirings?.length ?? 0, "hiring")} remembered`);
    open.update(items);
    hired.update(hirings ?? []);
  });
}
