"""Submitters that ask for their jobs by id: the HTTP API, and a schedule, whose jobs anybody may look up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hiringhall.sdk.errors import HallRefused

from .contract import End, Refused, Submitted, Submitter, until

if TYPE_CHECKING:
    import httpx

    from .house import House

ENDS: Final = ("done", "failed", "cancelled")


class HttpSubmitted(Submitted):
    asks = True

    def __init__(self, api: httpx.AsyncClient, job_id: str) -> None:
        super().__init__()
        self._api = api
        self._path = f"/jobs/{job_id}"

    async def _get(self, path: str = "") -> Any:
        return (await self._api.get(self._path + path)).raise_for_status().json()

    async def _is_over(self) -> bool:
        return (await self._get())["state"] in ENDS

    async def look(self) -> None:
        self.progress.append(tuple((await self._get())["progress"]))
        lines = (await self._get("/output"))["lines"]
        self.chunks = "".join(line["text"] for line in lines).encode()

    async def end(self) -> End:
        await until(self._is_over, "the job has ended")
        job = await self._get()
        if job["state"] != "done":
            return End(job["state"], job["result"].encode(), job["code"])
        return End("done", (await self._api.get(f"{self._path}/result")).raise_for_status().content)

    async def cancel(self) -> None:
        (await self._api.post(f"{self._path}/cancel", json={"reason": "not wanted"})).raise_for_status()


class HttpSubmitter(Submitter):
    async def submit(self, payload: bytes, key: str = "") -> Submitted:
        return await self._submit({"payload": payload.decode(), "key": key})

    async def submit_with_need(self, payload: bytes, skill: int) -> Submitted:
        return await self._submit({"payload": payload.decode(), "skill": skill})

    async def submit_with_resources(self, payload: bytes, resources: str) -> Submitted:
        stated = dict(part.split("=") for part in resources.split())
        return await self._submit({"payload": payload.decode(), "resources": stated})

    async def _submit(self, job: dict[str, object]) -> Submitted:
        answer = await self.house.api.post("/jobs", json={"queue": self.queue, **job})
        if answer.is_error:
            raise Refused(answer.json()["code"])
        return HttpSubmitted(self.house.api, answer.json()["ids"][0])


class ScheduleSubmitted(Submitted):
    asks = True

    def __init__(self, house: House, job_id: int) -> None:
        super().__init__()
        self._house = house
        self._job_id = job_id

    async def look(self) -> None:
        self.progress.append(tuple((await self._house.job(self._job_id))["progress"]))
        lines, _ = await self._house.operator.request("output", (self._job_id, 0))
        self.chunks = b"".join(data for _, _, data in lines)

    async def end(self) -> End:
        await until(lambda: self._house.is_over(self._job_id), "the job has ended")
        job = await self._house.job(self._job_id)
        return End(job["state"], job["result"], job["code"])


class ScheduleSubmitter(Submitter):
    """A schedule that is not due for a long time is run by hand, once for each job."""

    async def submit(self, payload: bytes, key: str = "") -> Submitted:
        return await self._submit(payload, key, {})

    async def submit_with_need(self, payload: bytes, skill: int) -> Submitted:
        return await self._submit(payload, "", {"skill": skill})

    async def submit_with_resources(self, payload: bytes, resources: str) -> Submitted:
        return await self._submit(payload, "", {"resources": resources})

    async def _submit(self, payload: bytes, key: str, terms: dict[str, object]) -> Submitted:
        name = f"{self.queue}-{self.house.number()}"
        ask = self.house.operator.request
        told = {"payload": payload.decode(), "key": key, "terms": terms}
        await ask("schedule", {"name": name, "queue": self.queue, "cron": "0 0 29 2 *", **told})
        try:
            return ScheduleSubmitted(self.house, await ask("run_schedule", (name,)))
        except HallRefused as refusal:
            raise Refused(refusal.code) from refusal
        finally:
            await ask("unschedule", (name,))
