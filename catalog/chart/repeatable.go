package chart

import (
	"maps"
	"slices"
	"strings"

	"copyhold.dev/copyhold/render/diag"
)

// refusal says why a function is refused, and what to do instead.
type refusal struct{ why, hint string }

var (
	clock    = refusal{"reads the clock, so each rendering would give other manifests", "write the date in the values"}
	zone     = refusal{"reads the time zone of the machine, so another machine would give other manifests", "write the date in the values as it is to be printed"}
	random   = refusal{"is random, so each rendering would give other manifests", "take it from the values, or have it made in the cluster"}
	ambient  = refusal{"reads the environment, so another machine would give other manifests", "take it from the values"}
	absent   = refusal{"asks a cluster, and there is none here: it would never find anything", "take it from the values"}
	network  = refusal{"asks the network, which is not done here: it would never find anything", "write the address in the values"}
	osPaths  = refusal{"follows the operating system's rules for paths, so another machine would give other manifests", `use the function without "os" in its name`}
	unsorted = refusal{"gives a map's entries in random order, so each rendering would give other manifests", "sort them at once: keys .Values.pools | sortAlpha; or range over the map itself, which is sorted"}
)

// refused are the functions of helm's templates that are not repeatable.
//
// Of the dates, those are refused that read the clock or the machine's zone, if only for some arguments: dateInZone and its like
// format the present when they are given text or a number from the values, and take the zone from what the machine has installed;
// fromToml reads a date without an offset in the local zone. What only computes with a date it is given (dateModify, unixEpoch,
// duration, durationRound) is allowed: no refused function, no date.
//
// keys and values are allowed where the order makes no difference, as in "keys .Values.pools | sortAlpha"; see facts.pipe.
// derivePassword, buildCustomCert and decryptAES give the same for the same arguments, and are allowed.
var refused = map[string]refusal{
	"now": clock, "ago": clock, "date": clock, "dateInZone": clock, "date_in_zone": clock, "htmlDate": clock, "htmlDateInZone": clock,
	"toDate": zone, "mustToDate": zone, "fromToml": zone,
	"randAlphaNum": random, "randAlpha": random, "randNumeric": random, "randAscii": random, "randInt": random, "randBytes": random,
	"shuffle": random, "uuidv4": random,
	"genPrivateKey": random, "genCA": random, "genCAWithKey": random, "genSelfSignedCert": random, "genSelfSignedCertWithKey": random,
	"genSignedCert": random, "genSignedCertWithKey": random, "htpasswd": random, "bcrypt": random, "encryptAES": random,
	"env": ambient, "expandenv": ambient,
	"lookup":        absent,
	"getHostByName": network,
	"osBase":        osPaths, "osClean": osPaths, "osDir": osPaths, "osExt": osPaths, "osIsAbs": osPaths,
	"keys": unsorted, "values": unsorted,
}

// checkTemplates finds what cannot be parsed, and every use of a refused function in a template that can be run: those that helm
// runs by themselves, what they define and include, and the texts they may hand to tpl. A helper that nobody includes is not
// looked at, for charts carry libraries of them.
//
// A text that a template puts together out of pieces and hands to tpl is not seen; release.compare is there for those.
func (r *release) checkTemplates() diag.List {
	parts, found := r.parse()
	if found.Failed() {
		return found
	}
	w := walk{parts: parts, seen: map[string]bool{}}
	for name := range r.templates() {
		if !partial(name) {
			w.add(name)
		}
	}
	var values, files bool
	for {
		w.finish()
		switch {
		case w.tpl && len(w.literals) > 0:
			w.work, w.literals = w.literals, nil
		case w.tpl && !values: // every text in the values may be one that is handed to tpl
			values = true
			all, _ := r.values.Table("Values")
			texts, bad := r.valueTexts(r.chart, all, "", nil)
			w.work = texts
			w.found.Add(bad...)
		case w.tpl && w.files && !files: // and so may every file, when files are read at all
			files = true
			w.work = r.fileTexts()
		default:
			return w.found
		}
	}
}

// walk goes through all templates that can be run.
type walk struct {
	parts    map[string]part
	seen     map[string]bool // names
	work     []part
	literals []part // texts written in templates
	tpl      bool   // something hands a text to tpl
	files    bool   // something reads the chart's files
	found    diag.List
}

func (w *walk) add(name string) {
	if p, ok := w.parts[name]; ok && !w.seen[name] {
		w.seen[name] = true
		w.work = append(w.work, p)
	}
}

func (w *walk) finish() {
	for len(w.work) > 0 {
		p := w.work[len(w.work)-1]
		w.work = w.work[:len(w.work)-1]
		w.part(p)
	}
}

func (w *walk) part(p part) {
	f := p.facts()
	for _, c := range f.calls {
		if why, ok := refused[c.function]; ok {
			w.found.Add(diag.Errorf(p.where(c.at), "chart/not-repeatable", "%s%q %s", p.label, c.function, why.why).Hintf("%s", why.hint))
		}
	}
	w.tpl, w.files = w.tpl || f.tpl, w.files || f.files
	for _, name := range f.names {
		w.add(name)
	}
	for name := range w.parts {
		if f.anyName || slices.ContainsFunc(f.endings, func(e string) bool { return strings.HasSuffix(name, "/templates"+e) }) {
			w.add(name)
		}
	}
	for _, s := range f.literals {
		at := p.where(s.Pos)
		w.literals = append(w.literals, texts(s.Text, p.label, at)...)
	}
}

// parse gives every template and definition by its name. When two have one name it is the one that helm would take, too.
func (r *release) parse() (map[string]part, diag.List) {
	files, sources := map[string]string{}, map[string]string{}
	for _, c := range r.charts() {
		for _, t := range c.Templates {
			if c.Metadata.Type == "library" && !partial(t.Name) { // helm leaves these out
				continue
			}
			name := templateName(c, t)
			files[name], sources[name] = r.file(c, t.Name), string(t.Data)
		}
	}
	// Helm parses the deepest file first, so that a chart's definition replaces that of its subchart.
	names := slices.SortedFunc(maps.Keys(files), func(a, b string) int {
		if d := strings.Count(b, "/") - strings.Count(a, "/"); d != 0 {
			return d
		}
		return strings.Compare(b, a)
	})
	parts := map[string]part{}
	var found diag.List
	for _, name := range names {
		trees, err := trees(name, sources[name])
		if err != nil {
			found.Add(r.failure(err))
			continue
		}
		for defined, tree := range trees {
			if _, ok := parts[defined]; ok && empty(tree) { // text/template lets nothing replace something
				continue
			}
			parts[defined] = templatePart(tree, files[name], sources[name])
		}
	}
	return parts, found
}
