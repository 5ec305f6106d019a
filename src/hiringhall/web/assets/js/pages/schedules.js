// Schedules: jobs that the hall submits by itself. Add, pause, resume, run now, remove.

import { get, post, send } from "../api.js";
import { act, actionButton, ask, confirmed, field, note } from "../dialogs.js";
import { fill, h } from "../dom.js";
import { ago, duration, plural } from "../format.js";
import { code, downloads, emptyState, pageHead } from "../lists.js";
import { may } from "../session.js";
import { pausedBadge } from "../situations.js";
import { step } from "../steps.js";
import { Table } from "../table.js";
import { shorten } from "../text.js";

function rule(schedule) {
  if (schedule.every_s) return `every ${duration(schedule.every_s)}`;
  return h("span", null, h("span", { class: "mono" }, schedule.cron), schedule.timezone ? h("span", { class: "faint" }, ` ${schedule.timezone}`) : null);
}

function actions(schedule, changed) {
  const path = `/schedules/${step(schedule, "name")}`;
  const run = async () => {
    const answer = await post(`${path}/run`);
    note(`${schedule.name} ran: a job was submitted${answer?.id ? ` (${answer.id})` : ""}. Its times stay as they are.`);
    changed();
  };
  const toggle = async () => {
    await post(`${path}/${schedule.paused ? "resume" : "pause"}`);
    note(schedule.paused ? `${schedule.name} goes on.` : `${schedule.name} is paused.`);
    changed();
  };
  const remove = async () => {
    if (!(await confirmed(`Remove ${schedule.name}?`, "It submits no further jobs. Jobs that it submitted stay.", "Remove the schedule", "bad"))) return;
    await send("DELETE", path);
    note(`${schedule.name} was removed.`);
    changed();
  };
  const button = (label, action, key) => actionButton(label, action, { class: "button button-small", "data-key": key, "aria-label": `${label} ${schedule.name}` });
  return h(
    "div",
    { class: "row-actions" },
    may("operator") ? [button("Run now", run, "run"), button(schedule.paused ? "Resume" : "Pause", toggle, "pause")] : null,
    may("admin") && schedule.source !== "settings" ? button("Remove", remove, "remove") : null,
  );
}

function columns(view) {
  return [
    { name: "name", label: "Schedule", first: true, cell: (schedule) => h("span", { class: "situation" }, h("strong", { class: "data clip" }, schedule.name), schedule.paused ? pausedBadge() : null) },
    { name: "rule", label: "When", cell: rule },
    { name: "queue", label: "Queue", cell: (schedule) => h("a", { class: "plain-link data clip", href: `/queues/${step(schedule, "queue")}`, "data-key": "queue" }, schedule.queue) },
    { name: "payload", label: "Payload", cell: (schedule) => (schedule.payload ? h("span", { class: "mono data clip faint", title: shorten(schedule.payload, 200) }, shorten(schedule.payload, 60)) : null) },
    { name: "next", label: "Next", number: true, cell: (schedule) => (schedule.paused ? h("span", { class: "none" }, "paused") : ago(schedule.next)) },
    { name: "last", label: "Last", number: true, cell: (schedule) => ago(schedule.last) },
    { name: "source", label: "From", cell: (schedule) => h("span", { class: "faint" }, schedule.source === "settings" ? "hall.toml" : "added") },
    { name: "actions", label: "", cell: (schedule) => actions(schedule, () => view.refresh()) },
  ];
}

function scheduleOf(form) {
  const schedule = { name: form.get("name"), queue: form.get("queue"), payload: form.get("payload") };
  if (form.get("kind") === "cron") {
    schedule.cron = form.get("cron");
    if (form.get("timezone")) schedule.timezone = form.get("timezone");
  } else schedule.every_s = Number(form.get("every_s"));
  return schedule;
}

async function add(changed) {
  const input = (name, attributes = {}) => h("input", { name, class: "input", autocomplete: "off", spellcheck: "false", ...attributes });
  const kind = h("select", { name: "kind", class: "input" }, h("option", { value: "cron" }, "At times of the calendar (cron)"), h("option", { value: "every" }, "In equal steps"));
  const cron = input("cron", { value: "30 3 * * *", required: true });
  const every = input("every_s", { type: "number", min: "1", step: "any", value: "3600", required: true });
  const zone = input("timezone", { placeholder: "UTC" });
  const calendar = h("div", { class: "field-row" }, field("Cron line", cron, "minute hour day month weekday"), field("Time zone", zone, "such as Europe/Vienna"));
  const steps = field("Seconds between", every);
  const show = () => {
    calendar.hidden = kind.value !== "cron";
    steps.hidden = !calendar.hidden;
    cron.disabled = zone.disabled = calendar.hidden;
    every.disabled = steps.hidden;
  };
  kind.addEventListener("change", show);
  show();
  const body = h("div", null, field("Name", input("name", { required: true })), field("Queue", input("queue", { required: true })), field("Payload", h("textarea", { name: "payload", class: "input", spellcheck: "false" })), field("When", kind), calendar, steps);
  const made = await ask({ title: "New schedule", body, confirm: "Add the schedule", submit: async (form) => (await post("/schedules", scheduleOf(form)), true) });
  if (!made) return;
  note("The schedule was added.");
  changed();
}

export function openSchedules(view) {
  view.title("Schedules");
  const count = h("span");
  const button = h("button", { type: "button", class: "button button-accent" }, "New schedule");
  button.addEventListener("click", () => act(button, () => add(() => view.refresh())));
  const table = new Table({ caption: "Schedules", columns: columns(view), key: (schedule) => step(schedule, "name"), empty: () => emptyState("No schedule yet", "A schedule submits a job at the times that it names, once for each, across restarts of the hall. Add one here, or:", code("hall schedule add nightly --cron \"30 3 * * *\" --queue backup --payload all")) });
  view.main.append(pageHead("Schedules", { lead: "Jobs that the hall submits by itself, once for each due time.", actions: may("admin") ? button : [] }), h("div", { class: "list-line" }, count, downloads("/schedules", () => ({})).node), table.node);
  view.keepFresh(async () => {
    const { items } = await get("/schedules", { limit: 1000 }, view.signal);
    fill(count, plural(items.length, "schedule"));
    table.update(items);
  });
}
