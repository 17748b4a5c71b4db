package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// calibrationWords are the sizes of the two prompts of calibrate, in words of
// ours.
var calibrationWords = [2]int{32, 288}

// calibrate returns how many bytes of our words make a token of the model's, on
// average. What the chat template adds is in both prompts and drops out.
func calibrate(ctx context.Context, c *client, header, salt string) (float64, error) {
	var tokens [2]int
	for i, words := range calibrationWords {
		text := string(appendWords(nil, named(salt+"calibration"), words*wordBytes))
		body := (&history{}).request(c.model, newMessage("user", text), 1, "")
		r, err := c.send(ctx, body, map[string]string{header: salt + "calibration"})
		switch {
		case err != nil:
			return 0, err
		case !r.usage.known:
			return 0, errors.New("the answer has no usage; set TokenBytes")
		}
		tokens[i] = r.usage.prompt
	}
	more := tokens[1] - tokens[0]
	if more <= 0 {
		return 0, fmt.Errorf("prompts of %d and %d words have %d and %d tokens; set TokenBytes", calibrationWords[0], calibrationWords[1], tokens[0], tokens[1])
	}
	return float64((calibrationWords[1]-calibrationWords[0])*wordBytes) / float64(more), nil
}

// servedModel is the first model of a server's list.
func (l *Live) servedModel(ctx context.Context, base string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/v1/models", nil)
	if err != nil {
		return "", err
	}
	for name, values := range l.Header {
		req.Header[name] = values
	}
	resp, err := (&http.Client{Transport: l.Transport}).Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("GET /v1/models: %s", resp.Status)
	}
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxEvent)).Decode(&list); err != nil {
		return "", fmt.Errorf("GET /v1/models: %w", err)
	}
	if len(list.Data) == 0 {
		return "", errors.New("GET /v1/models: the list is empty")
	}
	return list.Data[0].ID, nil
}
