// Package waits waits in the ways of Go; each test knows how long it takes.
package waits

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"
)

func took(t *testing.T, start time.Time, want time.Duration) {
	t.Helper()
	if got := time.Since(start); got < want || got > want+time.Millisecond {
		t.Errorf("took %v, want %v", got, want)
	}
}

func TestSleep(t *testing.T) {
	start := time.Now()
	time.Sleep(time.Hour)
	took(t, start, time.Hour)
}

// As client-go names its Events.
func TestNames(t *testing.T) {
	start := time.Now()
	names := map[string]bool{}
	for range 100 {
		names[fmt.Sprintf("pod.%x", time.Now().UnixNano())] = true
	}
	if len(names) != 100 {
		t.Errorf("%d names", len(names))
	}
	if time.Since(start) != 0 {
		t.Errorf("took %v", time.Since(start))
	}
}

func TestTicker(t *testing.T) {
	start := time.Now()
	ticker := time.NewTicker(10 * time.Second)
	defer ticker.Stop()
	for i := 1; i <= 60; i++ {
		<-ticker.C
		took(t, start, time.Duration(i)*10*time.Second)
	}
}

func TestContext(t *testing.T) {
	start := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	select {
	case <-ctx.Done():
	case <-time.After(time.Hour):
		t.Error("the context did not end")
	}
	took(t, start, 90*time.Second)
}

func TestHTTP(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(time.Minute):
		case <-r.Context().Done():
		}
	}))
	defer server.Close()
	start := time.Now()
	client := &http.Client{Timeout: 2 * time.Minute}
	reply, err := client.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	reply.Body.Close()
	took(t, start, time.Minute)
	client.Timeout = 30 * time.Second
	if _, err = client.Get(server.URL); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	took(t, start, 90*time.Second)
}

func TestManyGoroutines(t *testing.T) {
	start := time.Now()
	var group sync.WaitGroup
	for i := 1; i <= 100; i++ {
		group.Add(1)
		go func() {
			defer group.Done()
			time.Sleep(time.Duration(i) * time.Second)
			sum := 0
			for j := 0; j < 100000; j++ {
				sum += j
			}
			if sum == 0 {
				t.Error("no sum")
			}
		}()
	}
	group.Wait()
	took(t, start, 100*time.Second)
}

func TestCollection(t *testing.T) {
	start := time.Now()
	var kept [][]byte
	for i := 0; i < 200; i++ {
		kept = append(kept, make([]byte, 1<<16))
		if i%20 == 0 {
			runtime.GC()
		}
		time.Sleep(50 * time.Millisecond)
	}
	took(t, start, 10*time.Second)
	if os.Getenv("GOMAXPROCS") == "1" && runtime.GOMAXPROCS(0) != 1 {
		t.Error("GOMAXPROCS is ignored")
	}
}
