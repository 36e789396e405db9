"""Leader election: a replica takes the lease when it has run out, and not before."""

import kubernetes


def micro(time):
    """Returns a time for leases: the API wants a fraction of the second, and the client leaves away one that is zero."""
    return time.replace(microsecond=time.microsecond or 1)


def acquire(leases, name, now):
    """Takes or renews the lease as client-go does, and returns true if `name` holds it."""
    lease = leases.read_namespaced_lease("operator", "default")
    has_run_out = (now - lease.spec.renew_time).total_seconds() >= lease.spec.lease_duration_seconds
    if lease.spec.holder_identity != name and not has_run_out:
        return False
    # The version makes it fail if another replica was faster.
    version = {"resourceVersion": lease.metadata.resource_version}
    body = {"metadata": version, "spec": {"holderIdentity": name, "renewTime": micro(now)}}
    leases.patch_namespaced_lease("operator", "default", body)
    return True


def test_a_standby_waits_until_the_lease_has_run_out(client, world):
    leases = kubernetes.client.CoordinationV1Api(client)
    spec = {"holderIdentity": "one", "leaseDurationSeconds": 15, "renewTime": micro(world.now())}
    leases.create_namespaced_lease("default", {"metadata": {"name": "operator"}, "spec": spec})
    assert acquire(leases, "one", world.advance("10s"))
    # From here on, `one` is gone.
    assert not acquire(leases, "two", world.advance("14s"))
    assert acquire(leases, "two", world.advance("2s"))
    assert not acquire(leases, "one", world.now())
