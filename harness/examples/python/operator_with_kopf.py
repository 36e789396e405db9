"""An operator with kopf: a config map that is labelled `copy` has a secret of its name with the same data."""

import kopf
import kubernetes


# ANCHOR: login
@kopf.on.login()
def login(**arguments):
    return kopf.login_with_kubeconfig(**arguments)
# ANCHOR_END: login


@kopf.on.create("configmaps", labels={"copy": "yes"})
def copy(name, namespace, body, logger, **_):
    with kubernetes.config.new_client_from_config() as client:
        secret = {"metadata": {"name": name}, "stringData": dict(body["data"])}
        kopf.adopt(secret, owner=body)
        kubernetes.client.CoreV1Api(client).create_namespaced_secret(namespace, secret)
