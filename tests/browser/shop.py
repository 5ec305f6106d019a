"""Job functions of a small photo shop: what the hall in the pictures of the dashboard is busy with."""

from __future__ import annotations

import time

from hiringhall import Hall, current_job

hall = Hall()


@hall.job(name="photos.resize", retries=3, backoff=20.0)
def resize(photo: str, widths: list[int]) -> dict[str, object]:
    time.sleep(0.15)
    return {
        "photo": photo,
        "files": [f"{photo}-{width}.webp" for width in widths],
        "bytes": 18233 * len(widths),
    }


@hall.job(name="photos.transcode", timeout=600.0)
def transcode(film: str, seconds: int) -> str:
    """Takes as long as the film, and tells how far it is."""
    job = current_job()
    for second in range(1, seconds + 1):
        time.sleep(1)
        job.progress(second, seconds)
        job.log(f"{film}: second {second} of {seconds}")
        if second % 7 == 0:
            job.chunk(f"segment {second // 7}\n")
    return f"{film}.webm"


@hall.job(name="mail.send")
def send(person: str, subject: str) -> str:
    time.sleep(0.03)
    return f"250 queued for {person}: {subject}"


@hall.job(name="webhook.deliver", retries=3, backoff=90.0, retry_on=OSError)
def deliver(url: str) -> int:
    raise TimeoutError(f"{url} did not answer within 30 s")


@hall.job(name="billing.invoice")
def invoice(customer: int) -> str:
    if customer % 2:
        raise ValueError(f"customer {customer} has no address")
    return f"invoice-{customer}.pdf"
