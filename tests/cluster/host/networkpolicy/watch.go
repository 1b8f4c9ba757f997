package networkpolicy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
)

const (
	// retryDelay is the pause after a failed list or watch.
	retryDelay = 500 * time.Millisecond
	// watchTimeout ends a watch whose server vanished; a new list follows.
	watchTimeout = 4 * time.Minute
)

// watch follows all objects of one resource.
type watch[T any] struct {
	client *http.Client
	// url is the URL of the collection.
	url string
	// metadata returns the metadata of an object.
	metadata func(T) Meta
	// replace receives all objects, by key, after each change.
	replace func(map[string]T)
}

// list is a response to a list.
type list[T any] struct {
	Metadata Meta `json:"metadata"`
	Items    []T  `json:"items"`
}

// event is one event of a watch.
type event struct {
	Type   string          `json:"type"`
	Object json.RawMessage `json:"object"`
}

// run lists and watches until the context is done. While the API server cannot be reached, the
// objects of before stay in force.
func (w watch[T]) run(ctx context.Context, report func(error)) {
	for ctx.Err() == nil {
		if err := w.listAndWatch(ctx); err != nil && ctx.Err() == nil {
			report(fmt.Errorf("watch %s: %w", w.url, err))
			select {
			case <-ctx.Done():
			case <-time.After(retryDelay):
			}
		}
	}
}

// listAndWatch returns without an error when the server ends the watch in order.
func (w watch[T]) listAndWatch(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, watchTimeout+time.Minute)
	defer cancel()
	var all list[T]
	if err := w.get(ctx, "", func(body *json.Decoder) error { return body.Decode(&all) }); err != nil {
		return err
	}
	objects := map[string]T{}
	for _, object := range all.Items {
		objects[w.metadata(object).Key()] = object
	}
	w.replace(objects)
	query := fmt.Sprintf("?watch=true&timeoutSeconds=%d&resourceVersion=%s", int(watchTimeout.Seconds()), all.Metadata.ResourceVersion)
	return w.get(ctx, query, func(body *json.Decoder) error {
		for body.More() {
			var next event
			if err := body.Decode(&next); err != nil {
				return err
			}
			if err := w.apply(next, objects); err != nil {
				return err
			}
			w.replace(objects)
		}
		return nil
	})
}

func (w watch[T]) apply(next event, objects map[string]T) error {
	if next.Type == "ERROR" {
		return fmt.Errorf("the server ended the watch: %s", next.Object)
	}
	var object T
	if err := json.Unmarshal(next.Object, &object); err != nil {
		return err
	}
	key := w.metadata(object).Key()
	switch next.Type {
	case "ADDED", "MODIFIED":
		objects[key] = object
	case "DELETED":
		delete(objects, key)
	}
	return nil
}

func (w watch[T]) get(ctx context.Context, query string, read func(*json.Decoder) error) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url+query, nil)
	if err != nil {
		return err
	}
	response, err := w.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	return read(json.NewDecoder(response.Body))
}
