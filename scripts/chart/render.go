// Renders the chart as `helm template` does, with the libraries that Helm uses: text/template,
// sprig, and gojsonschema for values.schema.json.
//
//	render [OPTION]... CHART NAMESPACE [VALUES.yaml | KEY.KEY=YAML]...
//
// Options: --release NAME; --nodes NAME,NAME for what `lookup` finds of the cluster; --notes to
// render NOTES.txt instead of the objects.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig"
	"github.com/xeipuuv/gojsonschema"
	"sigs.k8s.io/yaml"
)

type values = map[string]interface{}

type options struct {
	release string
	nodes   string
	notes   bool
}

func main() {
	var given options
	flag.StringVar(&given.release, "release", "fairlead", "name of the release")
	flag.StringVar(&given.nodes, "nodes", "", "names of the cluster's nodes")
	flag.BoolVar(&given.notes, "notes", false, "render NOTES.txt")
	flag.Parse()
	if flag.NArg() < 2 {
		fail(errors.New("usage: render [OPTION]... CHART NAMESPACE [VALUES.yaml | KEY.KEY=YAML]..."))
	}
	text, err := render(given, flag.Arg(0), flag.Arg(1), flag.Args()[2:])
	if err != nil {
		fail(err)
	}
	fmt.Print(text)
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "render:", err)
	os.Exit(1)
}

func render(given options, chart, namespace string, overrides []string) (string, error) {
	merged, err := readValues(chart, overrides)
	if err != nil {
		return "", err
	}
	about, err := readYAML(filepath.Join(chart, "Chart.yaml"))
	if err != nil {
		return "", err
	}
	data := values{
		"Values":  merged,
		"Files":   files{chart},
		"Release": values{"Name": given.release, "Namespace": namespace, "Service": "Helm"},
		"Chart":   values{"Name": about["name"], "Version": about["version"], "AppVersion": about["appVersion"]},
	}
	folder := filepath.Join(chart, "templates")
	templates, err := filesIn(folder)
	if err != nil {
		return "", err
	}
	set, err := parse(folder, templates, lookup(given.nodes))
	if err != nil {
		return "", err
	}
	if given.notes {
		var out bytes.Buffer
		err := set.ExecuteTemplate(&out, "NOTES.txt", data)
		return out.String(), err
	}
	var documents []string
	for _, file := range templates {
		if filepath.Ext(file) != ".yaml" {
			continue
		}
		var out bytes.Buffer
		if err := set.ExecuteTemplate(&out, file, data); err != nil {
			return "", err
		}
		if text := strings.TrimSpace(out.String()); text != "" {
			documents = append(documents, strings.TrimPrefix(text, "---\n")+"\n")
		}
	}
	return strings.Join(documents, "---\n"), nil
}

// files reads the files of the chart that are no templates, as .Files of Helm.
type files struct{ chart string }

// Get returns the text of a file; empty when it does not exist.
func (of files) Get(name string) string {
	text, err := os.ReadFile(filepath.Join(of.chart, name))
	if err != nil {
		return ""
	}
	return string(text)
}

// filesIn returns the paths of all files in a folder, without the folder, in order.
func filesIn(folder string) ([]string, error) {
	var found []string
	err := filepath.Walk(folder, func(path string, info os.FileInfo, err error) error {
		if err != nil || info.IsDir() {
			return err
		}
		name, err := filepath.Rel(folder, path)
		found = append(found, name)
		return err
	})
	sort.Strings(found)
	return found, err
}

// lookup returns Helm's function of that name for a cluster that has only these nodes.
func lookup(nodes string) func(string, string, string, string) values {
	return func(apiVersion, kind, namespace, name string) values {
		if nodes == "" || apiVersion != "v1" || kind != "Node" {
			return values{}
		}
		var items []interface{}
		for _, node := range strings.Split(nodes, ",") {
			labels := values{"kubernetes.io/os": "linux"}
			items = append(items, values{"metadata": values{"name": node, "labels": labels}})
		}
		return values{"items": items}
	}
}

// parse reads the templates. They may use sprig, and the functions of Helm that this chart uses.
func parse(folder string, names []string, lookup interface{}) (*template.Template, error) {
	set := template.New("chart").Option("missingkey=zero").Funcs(sprig.TxtFuncMap())
	set.Funcs(template.FuncMap{
		"include": func(name string, data interface{}) (string, error) {
			var out bytes.Buffer
			err := set.ExecuteTemplate(&out, name, data)
			return out.String(), err
		},
		"toYaml": func(value interface{}) (string, error) {
			text, err := yaml.Marshal(value)
			return strings.TrimSuffix(string(text), "\n"), err
		},
		"lookup": lookup,
	})
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			return nil, err
		}
		if _, err := set.New(name).Parse(string(text)); err != nil {
			return nil, err
		}
	}
	return set, nil
}

func readValues(chart string, overrides []string) (values, error) {
	merged, err := readYAML(filepath.Join(chart, "values.yaml"))
	if err != nil {
		return nil, err
	}
	for _, override := range overrides {
		var next values
		if key, text, isPair := strings.Cut(override, "="); isPair {
			var value interface{}
			if err := yaml.Unmarshal([]byte(text), &value); err != nil {
				return nil, fmt.Errorf("%s: %w", override, err)
			}
			next = nested(strings.Split(key, "."), value)
		} else if next, err = readYAML(override); err != nil {
			return nil, err
		}
		merge(merged, next)
	}
	return merged, check(filepath.Join(chart, "values.schema.json"), merged)
}

func nested(keys []string, value interface{}) values {
	if len(keys) == 1 {
		return values{keys[0]: value}
	}
	return values{keys[0]: nested(keys[1:], value)}
}

// merge sets the values of from. As in Helm, null removes what was there.
func merge(into, from values) {
	for key, value := range from {
		if value == nil {
			delete(into, key)
			continue
		}
		inner, isMap := value.(values)
		if outer, exists := into[key].(values); isMap && exists {
			merge(outer, inner)
		} else {
			into[key] = value
		}
	}
}

func readYAML(path string) (values, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var read values
	if err := yaml.UnmarshalStrict(text, &read); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return read, nil
}

// check returns an error that names each value that the schema does not allow.
func check(path string, given values) error {
	schema, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	text, err := json.Marshal(given)
	if err != nil {
		return err
	}
	result, err := gojsonschema.Validate(gojsonschema.NewBytesLoader(schema), gojsonschema.NewBytesLoader(text))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	var problems []string
	for _, problem := range result.Errors() {
		problems = append(problems, problem.String())
	}
	if len(problems) > 0 {
		return fmt.Errorf("values: %s", strings.Join(problems, "; "))
	}
	return nil
}
