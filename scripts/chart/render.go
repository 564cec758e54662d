// Renders the chart as `helm template` does, with the libraries that Helm uses: text/template,
// sprig, and gojsonschema for values.schema.json.
//
//	render CHART NAMESPACE [VALUES.yaml | KEY.KEY=TEXT]...
package main

import (
	"bytes"
	"encoding/json"
	"errors"
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

func main() {
	if len(os.Args) < 3 {
		fail(errors.New("usage: render CHART NAMESPACE [VALUES.yaml | KEY.KEY=TEXT]..."))
	}
	text, err := render(os.Args[1], os.Args[2], os.Args[3:])
	if err != nil {
		fail(err)
	}
	fmt.Print(text)
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "render:", err)
	os.Exit(1)
}

func render(chart, namespace string, overrides []string) (string, error) {
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
		"Release": values{"Name": "fairlead", "Namespace": namespace, "Service": "Helm"},
		"Chart":   values{"Name": about["name"], "Version": about["version"], "AppVersion": about["appVersion"]},
	}
	templates, err := filepath.Glob(filepath.Join(chart, "templates", "*"))
	if err != nil {
		return "", err
	}
	sort.Strings(templates)
	set, err := parse(templates)
	if err != nil {
		return "", err
	}
	var documents []string
	for _, file := range templates {
		if filepath.Ext(file) != ".yaml" {
			continue
		}
		var out bytes.Buffer
		if err := set.ExecuteTemplate(&out, filepath.Base(file), data); err != nil {
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

// parse reads the templates. They may use sprig, and the functions of Helm that this chart uses.
func parse(paths []string) (*template.Template, error) {
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
	})
	for _, file := range paths {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if _, err := set.New(filepath.Base(file)).Parse(string(text)); err != nil {
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
			next = nested(strings.Split(key, "."), text)
		} else if next, err = readYAML(override); err != nil {
			return nil, err
		}
		merge(merged, next)
	}
	return merged, check(filepath.Join(chart, "values.schema.json"), merged)
}

func nested(keys []string, text string) values {
	if len(keys) == 1 {
		return values{keys[0]: text}
	}
	return values{keys[0]: nested(keys[1:], text)}
}

func merge(into, from values) {
	for key, value := range from {
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
