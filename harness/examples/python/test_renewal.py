"""Long waits: a controller that renews certificates after sixty days, tested for half a year."""

import datetime

import kubernetes
import pytest

# Heartbeats of nodes would make half a year long.
pytestmark = pytest.mark.plumbline(like=None)
DAY = datetime.timedelta(days=1)


def renew(core, now):
    """The controller: renews each secret with the label that is older than sixty days."""
    for secret in core.list_namespaced_secret("default", label_selector="renew=yes").items:
        issued = datetime.datetime.fromisoformat(secret.metadata.annotations["issued"])
        if now - issued >= 60 * DAY:
            body = {"metadata": {"annotations": {"issued": now.isoformat()}}}
            core.patch_namespaced_secret(secret.metadata.name, "default", body)


def issue(core, now):
    metadata = {"name": "serving", "labels": {"renew": "yes"}, "annotations": {"issued": now.isoformat()}}
    core.create_namespaced_secret("default", {"metadata": metadata})


def test_a_certificate_is_renewed_every_sixty_days(client, world):
    core = kubernetes.client.CoreV1Api(client)
    issue(core, world.now())
    days = []
    for day in range(1, 181):
        renew(core, world.advance(DAY))
        issued = core.read_namespaced_secret("serving", "default").metadata.annotations["issued"]
        if issued == world.now().isoformat():
            days.append(day)
    assert days == [60, 120, 180]


def test_a_renewal_that_failed_is_tried_on_the_next_day(client, world):
    core = kubernetes.client.CoreV1Api(client)
    issue(core, world.now())
    world.fault(on="PATCH secrets/*", reply=503, count=1)
    try:
        renew(core, world.advance(60 * DAY))
    except kubernetes.client.ApiException as error:
        assert error.status == 503
    renew(core, world.advance(DAY))
    issued = core.read_namespaced_secret("serving", "default").metadata.annotations["issued"]
    assert issued == world.now().isoformat()
