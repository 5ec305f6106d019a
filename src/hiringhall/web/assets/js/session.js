// Who looks at the page, and what they may do. The server decides; here only what is offered follows it.

import { get } from "./api.js";

const RANKS = { viewer: 0, operator: 1, admin: 2 };

export const session = { name: "", role: "viewer", hall: null };

export function may(role) {
  return RANKS[session.role] >= RANKS[role];
}

export async function load() {
  const hall = await get("/hall");
  session.hall = hall;
  session.name = hall.actor.name;
  session.role = hall.actor.role;
  return hall;
}
