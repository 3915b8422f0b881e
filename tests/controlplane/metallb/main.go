// Validator reads MetalLB's configuration as JSON, by the names of MetalLB's own test format ("ipaddresspools", "l2advertisements",
// "bgpadvertisements"), and says what MetalLB's webhooks and speaker would say of it: nothing, or an error and exit code 1.
//
// MetalLB's checks are internal to its module. The path of this module lies below MetalLB's, so it may import them.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"go.universe.tf/metallb/internal/config"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: metallb-validator native|frr|frr-k8s < resources.json")
		os.Exit(2)
	}
	d := json.NewDecoder(os.Stdin)
	d.DisallowUnknownFields()
	var resources config.ClusterResources
	err := d.Decode(&resources)
	if err == nil {
		_, err = config.For(resources, config.ValidationFor(os.Args[1]), config.ForOptions{})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
