package plumbline

import (
	"context"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
)

var server *Server

func TestMain(m *testing.M) {
	var err error
	if server, err = Start(); err != nil {
		panic(err)
	}
	code := m.Run()
	if err := server.Close(); err != nil {
		panic(err)
	}
	os.Exit(code)
}

// world returns a world and a client for one test.
func world(t *testing.T) (*World, kubernetes.Interface) {
	t.Helper()
	world, err := server.World()
	check(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			transcript, _ := world.Transcript()
			t.Log(transcript)
		}
		check(t, world.Close())
	})
	client, err := kubernetes.NewForConfig(world.Config)
	check(t, err)
	return world, client
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func pod(name, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
}

// ANCHOR: orphan
func TestAnOrphanWaitsForFortySeconds(t *testing.T) {
	t.Parallel()
	world, client := world(t)
	pods, ctx := client.CoreV1().Pods("default"), context.Background()
	_, err := pods.Create(ctx, pod("orphan", "gone"), metav1.CreateOptions{})
	check(t, err)
	check(t, world.Advance("59s"))
	_, err = pods.Get(ctx, "orphan", metav1.GetOptions{})
	check(t, err)
	check(t, world.Advance("21s"))
	if _, err = pods.Get(ctx, "orphan", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Fatalf("the orphan is still there: %v", err)
	}
}
// ANCHOR_END: orphan

func TestABudgetRefusesTheSecondEviction(t *testing.T) {
	t.Parallel()
	world, client := world(t)
	ctx := context.Background()
	for _, name := range []string{"a", "b"} {
		_, err := client.CoreV1().Pods("default").Create(ctx, pod(name, "node-1"), metav1.CreateOptions{})
		check(t, err)
	}
	one := intstr.FromInt32(1)
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: &one,
			Selector:     &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		},
	}
	_, err := client.PolicyV1().PodDisruptionBudgets("default").Create(ctx, budget, metav1.CreateOptions{})
	check(t, err)
	check(t, world.Advance("10s"))
	evict := func(name string) error {
		eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
		return client.PolicyV1().Evictions("default").Evict(ctx, eviction)
	}
	check(t, evict("a"))
	if err := evict("b"); !apierrors.IsTooManyRequests(err) {
		t.Fatalf("the budget did not refuse: %v", err)
	}
}

// Informers list and watch as in a cluster.
func TestAnInformerSeesWhatTheWorkloadControllersDo(t *testing.T) {
	t.Parallel()
	world, client := world(t)
	factory := informers.NewSharedInformerFactory(client, 0)
	lister := factory.Core().V1().Nodes().Lister()
	factory.Core().V1().Nodes().Informer()
	stop := make(chan struct{})
	defer close(stop)
	factory.Start(stop)
	factory.WaitForCacheSync(stop)
	check(t, world.Advance("1s"))
	if _, err := lister.Get("node-1"); err != nil {
		t.Fatal(err)
	}
}
