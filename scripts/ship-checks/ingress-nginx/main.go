// Renders the part of ingress-nginx's template that asks an external service, for the annotations of an Ingress.
//
//	go run . MODULE_DIR < ingress.yaml-as-json
//
// It checks the annotations' names and values against the controller's own, and prints a server for nginx. The template is
// that of the controller; the values of its variables are those that the controller derives from the annotations.
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"text/template"
)

const prefix = "nginx.ingress.kubernetes.io/"

type values = map[string]any

func main() {
	log.SetFlags(0)
	module := os.Args[1]
	var ingress struct {
		Metadata struct{ Annotations map[string]string }
	}
	if err := json.NewDecoder(os.Stdin).Decode(&ingress); err != nil {
		log.Fatal(err)
	}
	annotations := map[string]string{}
	known := read(module, "internal/ingress/annotations/*/main.go")
	for name, value := range ingress.Metadata.Annotations {
		short := strings.TrimPrefix(name, prefix)
		if short == name || !strings.Contains(known, `"`+short+`"`) {
			log.Fatalf("the controller has no annotation %s", name)
		}
		annotations[short] = value
	}
	// URLWithNginxVariableRegex in internal/ingress/annotations/parser/validators.go.
	parser := read(module, "internal/ingress/annotations/parser/validators.go")
	for _, line := range []string{"alphaNumericChars    = `\\-\\.\\_\\~a-zA-Z0-9\\/:`", "urlEnabledChars      = regexp.QuoteMeta(`:?&=`)"} {
		if !strings.Contains(parser, line) {
			log.Fatalf("the controller's check of URLs has changed: %s is missing", line)
		}
	}
	target := annotations["auth-url"]
	if !regexp.MustCompile(`^[\-\.\_\~a-zA-Z0-9\/:, ` + regexp.QuoteMeta(`:?&=`) + `$]*$`).MatchString(target) {
		log.Fatalf("the controller refuses the auth-url %q", target)
	}
	address, err := url.Parse(target)
	if err != nil {
		log.Fatal(err)
	}

	text := read(module, "rootfs/etc/nginx/template/nginx.tmpl")
	section := between(text, "        location = {{ $authPath }} {", "        {{ if isLocationAllowed $location }}")
	section = strings.TrimSuffix(strings.TrimSpace(section), "{{ end }}")
	variables := `{{ $all := .All }}{{ $server := .Server }}{{ $location := .Location }}{{ $externalAuth := .Auth }}` +
		`{{ $authPath := "/_external-auth" }}{{ $applyAuthUpstream := false }}{{ $applyGlobalAuth := false }}`
	functions := template.FuncMap{
		"buildUpstreamName":        func(any) string { return "shop" },
		"quote":                    func(s string) string { return `"` + s + `"` },
		"isValidByteSize":          func(any, bool) bool { return false },
		"empty":                    func(v any) bool { return v == nil || v == "" },
		"buildAuthProxySetHeaders": func(any) []string { return nil },
		"buildAuthUpstreamName":    func(any, any) string { return "" },
		"changeHostPort":           func(any, any) string { return "" },
	}
	rendered := &strings.Builder{}
	parsed := template.Must(template.New("auth").Funcs(functions).Option("missingkey=zero").Parse(variables + section))
	err = parsed.Execute(rendered, values{
		"All":    values{"Cfg": values{}},
		"Server": values{"Hostname": "shop.example.com", "CertificateAuth": values{"CAFileName": ""}},
		"Auth":   values{"URL": target, "Host": address.Host, "Method": annotations["auth-method"]},
		"Location": values{"Opentelemetry": values{}, "Proxy": values{
			"ProxyBuffering": "off", "BufferSize": "4k", "BuffersNumber": 4, "RequestBuffering": "on", "ProxyHTTPVersion": "1.1",
		}},
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, line := range []string{"auth_request        {{ $authPath }};", "auth_request_set    $auth_cookie $upstream_http_set_cookie;"} {
		if !strings.Contains(text, line) {
			log.Fatalf("the template has changed: %s is missing", line)
		}
	}
	fmt.Printf(`server {
  listen 127.0.0.1:8000;
  set $req_id $request_id;
  set $pass_access_scheme $scheme;
  set $proxy_upstream_name "";
%s
%s
  location / {
    auth_request /_external-auth;
    auth_request_set $auth_cookie $upstream_http_set_cookie;
    add_header Set-Cookie $auth_cookie;
%s
    proxy_pass http://127.0.0.1:8001;
  }
}
`, rendered, annotations["server-snippet"], annotations["configuration-snippet"])
}

// read returns the text of all files that match.
func read(module, pattern string) string {
	files, err := filepath.Glob(filepath.Join(module, pattern))
	if err != nil || len(files) == 0 {
		log.Fatalf("%s has no %s", module, pattern)
	}
	text := &strings.Builder{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			log.Fatal(err)
		}
		text.Write(content)
	}
	return text.String()
}

func between(text, from, to string) string {
	_, after, found := strings.Cut(text, from)
	section, _, ended := strings.Cut(after, to)
	if !found || !ended {
		log.Fatalf("the template has no section from %q to %q", from, to)
	}
	return from + section
}
