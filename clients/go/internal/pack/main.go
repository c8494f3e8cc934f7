// Pack writes the module's archive as a module proxy serves it, so that it can be installed before it is published:
//
//	go run ./internal/pack FOLDER VERSION
//
// All of the folder goes in, tests too, as proxies have it.
package main

import (
	"archive/zip"
	"encoding/json"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	if err := pack(os.Args[1], os.Args[2]); err != nil {
		log.Fatal(err)
	}
}

func pack(folder, version string) error {
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		return err
	}
	first, _, _ := strings.Cut(string(mod), "\n")
	module := strings.TrimPrefix(first, "module ")
	to := filepath.Join(folder, filepath.FromSlash(module), "@v")
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	info, err := json.Marshal(map[string]any{"Version": version, "Time": time.Unix(0, 0).UTC()})
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{
		version + ".mod": mod, version + ".info": info, "list": []byte(version + "\n"),
	} {
		if err := os.WriteFile(filepath.Join(to, name), content, 0o644); err != nil {
			return err
		}
	}
	return write(filepath.Join(to, version+".zip"), module+"@"+version+"/")
}

func write(archive, prefix string) error {
	file, err := os.Create(archive)
	if err != nil {
		return err
	}
	defer file.Close()
	out := zip.NewWriter(file)
	err = fs.WalkDir(os.DirFS("."), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		one, err := out.Create(prefix + path)
		if err != nil {
			return err
		}
		_, err = one.Write(content)
		return err
	})
	if err != nil {
		return err
	}
	return out.Close()
}
