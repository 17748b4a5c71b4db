package bench

import (
	"context"

	"github.com/warmroute/warmroute"
)

// connect makes a router that runs, and has scraped the endpoints once. Its hashes
// are the same each time, so that a run can be repeated.
func connect(s Site, opts []warmroute.Option) (Gateway, error) {
	router, err := warmroute.New(s.Endpoints, append([]warmroute.Option{warmroute.WithHashSeed(1)}, opts...)...)
	if err != nil {
		return Gateway{}, err
	}
	ended := make(chan error, 1)
	go func() { ended <- router.Run(context.Background()) }()
	return Gateway{
		Transport: router.Transport(s.Base),
		Close: func() error {
			err := router.Close()
			if ran := <-ended; err == nil {
				err = ran
			}
			return err
		},
	}, nil
}
