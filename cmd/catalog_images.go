package cmd

import (
	"encoding/json"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"

	"copyhold.dev/copyhold/catalog"
	"copyhold.dev/copyhold/render"
	"copyhold.dev/copyhold/render/diag"
	"copyhold.dev/copyhold/render/strict"
)

func (a *app) catalogImagesCommand() *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:   "images",
		Short: "add up what golden images take of the storage",
		Long: `images lists the golden images that boot volumes are cloned from, one for each storage tier and Kubernetes version on offer, with the
space that each takes: twice the storage tier and 10 GiB. Tiers that are switched off are left out.`,
		Example: `  copyhold catalog images
  copyhold catalog images -o json`,
		Args: exactly(0, "none"),
		RunE: func(*cobra.Command, []string) error { return a.catalogImages(output) },
	}
	c.Flags().StringVarP(&output, "output", "o", "table", "table, json or yaml")
	return c
}

func (a *app) catalogImages(output string) error {
	if output != "table" && output != "json" && output != "yaml" {
		return usageError{fmt.Errorf("--output %q, want one of json, table, yaml", output), ""}
	}
	t, _, err := a.repository(nil)
	if err != nil {
		return err
	}
	defer t.close()
	in, found, err := render.Offer(t)
	if err != nil {
		return err
	}
	if in == nil || in.Catalog == nil {
		return a.print(found)
	}
	var images []catalog.Image
	for _, source := range catalog.Sorted(in.Catalog.Classes) {
		tiers, bad, err := render.StorageTiers(t, in, source)
		if err != nil {
			return err
		}
		found.Add(bad...)
		some, err := catalog.Images(source, tiers, in.Catalog.Versions)
		if err != nil {
			found.Add(diag.Errorf(in.Catalog.At("classes", source), "storage/bad-tier", "%v", err))
		}
		images = append(images, some...)
	}
	if err := a.print(found); err != nil {
		return err
	}
	if output == "table" {
		return a.imageTable(images)
	}
	return a.imageList(images, output)
}

func (a *app) imageTable(images []catalog.Image) error {
	if len(images) == 0 {
		a.say("no tier on offer boots from golden images")
		return nil
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "CLASS SOURCE\tSTORAGE TIER\tVERSION\tSPACE")
	for _, i := range images {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", i.Source, i.StorageTier, i.Version, i.Space.String())
	}
	total := catalog.Space(images)
	fmt.Fprintf(w, "total\t\t\t%s\n", total.String())
	return w.Flush()
}

// imageJSON is one golden image as -o json and -o yaml have it.
type imageJSON struct {
	Source      string            `json:"classSource"`
	StorageTier string            `json:"storageTier"`
	Version     string            `json:"version"`
	Space       resource.Quantity `json:"space"`
}

func (a *app) imageList(images []catalog.Image, output string) error {
	list := struct {
		Images []imageJSON       `json:"images"`
		Total  resource.Quantity `json:"total"`
	}{Images: []imageJSON{}, Total: catalog.Space(images)}
	for _, i := range images {
		list.Images = append(list.Images, imageJSON(i))
	}
	data, err := json.MarshalIndent(list, "", "  ")
	if err != nil {
		return err
	}
	if output == "yaml" {
		var plain map[string]any
		if err := json.Unmarshal(data, &plain); err != nil {
			return err
		}
		if data, err = strict.Marshal(plain); err != nil {
			return err
		}
		_, err = a.stdout.Write(data)
		return err
	}
	_, err = fmt.Fprintf(a.stdout, "%s\n", data)
	return err
}
