package platformtest

import (
	"io"
	"net/http"
)

// Form returns the fields of a form with one file in a field, and the file. isForm is false for another body.
func Form(r *http.Request, field string) (fields map[string]string, name, content string, isForm bool) {
	if r.ParseMultipartForm(64<<20) != nil {
		return nil, "", "", false
	}
	fields = map[string]string{}
	for key := range r.MultipartForm.Value {
		fields[key] = r.MultipartForm.Value[key][0]
	}
	f, header, err := r.FormFile(field)
	if err != nil {
		return fields, "", "", true
	}
	defer f.Close() // it was only read
	raw, err := io.ReadAll(f)
	if err != nil {
		return fields, "", "", true
	}
	return fields, header.Filename, string(raw), true
}
