"""Tests with the Python client, a clock that they turn, and real controllers, without pytest's fixtures: they run with
`python -m unittest`, too."""

import unittest

import kubernetes
from kubernetes.client.rest import ApiException

import plumbline


def pod(name, node, labels=None):
    container = kubernetes.client.V1Container(name="c", image="i")
    return kubernetes.client.V1Pod(
        metadata=kubernetes.client.V1ObjectMeta(name=name, labels=labels),
        spec=kubernetes.client.V1PodSpec(node_name=node, containers=[container]),
    )


class Cluster(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = plumbline.Server()
        cls.addClassCleanup(cls.server.close)

    def setUp(self):
        self.world = self.server.world()
        self.addCleanup(self.world.close)
        self.client = kubernetes.config.new_client_from_config_dict(self.world.kubeconfig)
        self.addCleanup(self.client.close)
        self.pods = kubernetes.client.CoreV1Api(self.client)

    def names(self):
        return sorted(pod.metadata.name for pod in self.pods.list_namespaced_pod("default").items)

    def test_an_orphan_waits_for_forty_seconds(self):
        self.pods.create_namespaced_pod("default", pod("orphan", "gone"))
        self.world.advance("59s")
        self.assertEqual(self.names(), ["orphan"])
        self.world.advance("21s")
        self.assertEqual(self.names(), [])
        self.assertIn("podgc          DELETE pods/orphan 200", self.world.transcript())

    def test_a_budget_refuses_the_second_eviction(self):
        for name in ["a", "b"]:
            self.pods.create_namespaced_pod("default", pod(name, "node-1", {"app": "web"}))
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
        policy = kubernetes.client.PolicyV1Api(self.client)
        policy.create_namespaced_pod_disruption_budget("default", {"metadata": {"name": "web"}, "spec": spec})
        self.world.advance("10s")
        self.world.save("two pods")

        def allowed():
            budget = policy.read_namespaced_pod_disruption_budget("web", "default")
            return budget.status.disruptions_allowed

        self.assertEqual(allowed(), 1)
        self.pods.create_namespaced_pod_eviction("a", "default", {"metadata": {"name": "a"}})
        with self.assertRaises(ApiException) as refused:
            self.pods.create_namespaced_pod_eviction("b", "default", {"metadata": {"name": "b"}})
        self.assertEqual(refused.exception.status, 429)
        self.world.advance("1m")
        self.assertEqual(self.names(), ["b"])
        self.world.restore("two pods")
        self.assertEqual(self.names(), ["a", "b"])
        self.assertEqual(allowed(), 1)

    def test_a_fault_hits_one_request(self):
        self.world.fault(on="LIST pods", reply=503, count=1)
        with self.assertRaises(ApiException) as failed:
            self.names()
        self.assertEqual(failed.exception.status, 503)
        self.assertEqual(self.names(), [])


if __name__ == "__main__":
    unittest.main()
