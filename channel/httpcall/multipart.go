package httpcall

import (
	"bytes"
	"fmt"
	"mime/multipart"
	"net/textproto"
	"strings"
)

// FormFile is a file of a form.
type FormFile struct {
	Field, Name, Type string
	Content           []byte
}

// Form encodes a form with a file, and returns the body with its Content-Type.
func Form(fields map[string]string, f FormFile) (contentType string, body []byte, err error) {
	var out bytes.Buffer
	w := multipart.NewWriter(&out)
	for name, value := range fields {
		if err := w.WriteField(name, value); err != nil {
			return "", nil, fmt.Errorf("encode field %s: %w", name, err)
		}
	}
	header := textproto.MIMEHeader{}
	quoted := strings.NewReplacer(`"`, "_", `\`, "_", "\r", "_", "\n", "_").Replace(f.Name)
	header.Set("Content-Disposition", fmt.Sprintf(`form-data; name="%s"; filename="%s"`, f.Field, quoted))
	header.Set("Content-Type", f.Type)
	part, err := w.CreatePart(header)
	if err == nil {
		_, err = part.Write(f.Content)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return "", nil, fmt.Errorf("encode file %s: %w", f.Name, err)
	}
	return w.FormDataContentType(), out.Bytes(), nil
}
