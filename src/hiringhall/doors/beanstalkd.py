"""beanstalkd doors: their settings, the options that follow from these, and what opens the doors."""

from typing import Annotated, Final, Literal

from msgspec import Meta

from hiringhall import __version__
from hiringhall.config.fields import ListenAddress
from hiringhall.config.quantities import Address, Size
from hiringhall.config.schema import TcpDoorSettings
from hiringhall.dialects.beanstalkd.context import BeanstalkdContext, BeanstalkdOptions
from hiringhall.dialects.beanstalkd.session import BeanstalkdSession
from hiringhall.doors.dialect import Dialect, DialectDoors
from hiringhall.endpoints import Endpoint, TcpEndpoint

BEANSTALKD_VERSION: Final = "1.12"
"""The beanstalkd that the door was compared with."""
_OPTIONS = BeanstalkdOptions()


class BeanstalkdDoorSettings(TcpDoorSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A door for clients of beanstalkd."""

    dialect: Annotated[Literal["beanstalkd"], Meta(description="The protocol spoken at this door.")] = (
        "beanstalkd"
    )
    address: ListenAddress = Address("127.0.0.1:11300")
    jobs: Annotated[
        Literal["durable", "memory"],
        Meta(description="Whether jobs, and what becomes of them, are on disk before they are acknowledged."),
    ] = "durable"
    job_bytes_max: Annotated[Size, Meta(description="The longest body of a job; longer ones are refused.")] = (
        Size(_OPTIONS.job_bytes_max)
    )

    def options(self) -> BeanstalkdOptions:
        return BeanstalkdOptions(
            durable=self.jobs == "durable",
            job_bytes_max=int(self.job_bytes_max),
            log_all=self.log == "all",
        )


class BeanstalkdDoors(DialectDoors[BeanstalkdDoorSettings]):
    """The beanstalkd doors of one hall. They share nothing."""

    def endpoints(self, settings: BeanstalkdDoorSettings) -> list[Endpoint]:
        version = f"{BEANSTALKD_VERSION}+hiringhall-{__version__}"
        context = BeanstalkdContext(self.hall.driver.scheduler, settings.options(), version, self.hall.pid)
        return [TcpEndpoint(settings, lambda caller: BeanstalkdSession(caller, context))]


BEANSTALKD: Final = Dialect({"beanstalkd": BeanstalkdDoorSettings}, BeanstalkdDoors)
