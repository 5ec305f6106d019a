// Starts the dashboard: the frame, the pages by path, and the live summary.

import { Problem } from "./api.js";
import { startTicking } from "./format.js";
import * as keys from "./keys.js";
import * as live from "./live.js";
import { route, start as startRouter } from "./router.js";
import { load } from "./session.js";
import { build, drawWho, markPlace } from "./shell.js";
import { toggle } from "./theme.js";
import { openAuctions } from "./pages/auctions.js";
import { openFlow, openGraph } from "./pages/flow.js";
import { openFlows } from "./pages/flows.js";
import { openHistory } from "./pages/history.js";
import { openJob } from "./pages/job.js";
import { openJobs } from "./pages/jobs.js";
import { openLogin } from "./pages/login.js";
import { openMissing } from "./pages/missing.js";
import { openOverview } from "./pages/overview.js";
import { openQueue } from "./pages/queue.js";
import { openQueues } from "./pages/queues.js";
import { openSchedules } from "./pages/schedules.js";
import { openSettings } from "./pages/settings.js";
import { openWorker } from "./pages/worker.js";
import { openWorkers } from "./pages/workers.js";

const RETRY_MS = 2000;

route("/", openOverview);
route("/queues", openQueues);
route("/queues/:name", openQueue);
route("/jobs", openJobs);
route("/jobs/:id", openJob);
route("/workers", openWorkers);
route("/workers/:number", openWorker);
route("/flows", openFlows);
route("/flows/:name", openFlow);
route("/graph", openGraph);
route("/auctions", openAuctions);
route("/schedules", openSchedules);
route("/history", openHistory);
route("/settings", openSettings);
route("/*", openMissing);

/** Who is here must be known before a page offers actions. */
async function loadSession() {
  for (;;) {
    try {
      return await load();
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      live.setLink(error.status === 0 ? { web: false } : { hall: false });
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    }
  }
}

async function start() {
  if (location.pathname === "/login") {
    openLogin(document.body);
    return;
  }
  const { main, who } = build();
  startTicking();
  keys.start(toggle);
  await loadSession();
  drawWho(who);
  live.start();
  startRouter(main, markPlace);
}

start();
