// Prints the answer to a transaction, or to a run of a script, as JSON. TX.json may be -: then standard input has a transaction in
// each line, and every line has its answer.
//
//	client verify HOST:PORT TX.json
//	client run HOST:PORT SCRIPT ARG...
//
// ANTARES_TLS_CA, ANTARES_TLS_CERT and ANTARES_TLS_KEY name files, ANTARES_TOKEN_FILE one with a token.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	antares "github.com/antares-vm/antares/clients/go"
)

// transport is encrypted if an authority is named.
func transport() (credentials.TransportCredentials, error) {
	ca := os.Getenv("ANTARES_TLS_CA")
	if ca == "" {
		return insecure.NewCredentials(), nil
	}
	pem, err := os.ReadFile(ca)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s: no certificates", ca)
	}
	config := &tls.Config{RootCAs: roots}
	if certificate := os.Getenv("ANTARES_TLS_CERT"); certificate != "" {
		pair, err := tls.LoadX509KeyPair(certificate, os.Getenv("ANTARES_TLS_KEY"))
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return credentials.NewTLS(config), nil
}

func connect(address string) (*antares.Client, error) {
	secure, err := transport()
	if err != nil {
		return nil, err
	}
	client, err := antares.New(address, grpc.WithTransportCredentials(secure))
	if err != nil {
		return nil, err
	}
	if path := os.Getenv("ANTARES_TOKEN_FILE"); path != "" {
		token, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		client = client.WithMetadata("authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	return client, nil
}

func print(answer proto.Message) error {
	text, err := protojson.Marshal(answer)
	if err == nil {
		fmt.Println(string(text))
	}
	return err
}

// verifyLines prints an answer or an error for each line.
func verifyLines(client *antares.Client) error {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		answer, err := client.Verify(context.Background(), lines.Bytes(), nil)
		var refused *antares.Refused
		switch {
		case err == nil:
			err = print(answer)
		case errors.As(err, &refused):
			fields := []string{}
			for _, violation := range refused.Violations {
				fields = append(fields, violation.Field)
			}
			found := map[string]any{"code": int(refused.Code), "reason": refused.Reason, "fields": fields}
			err = json.NewEncoder(os.Stdout).Encode(map[string]any{"error": found})
		}
		if err != nil {
			return err
		}
	}
	return lines.Err()
}

func run(verb, address, path string, args []string) error {
	client, err := connect(address)
	if err != nil {
		return err
	}
	defer client.Close()
	if verb == "verify" && path == "-" {
		return verifyLines(client)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if verb == "verify" {
		answer, err := client.Verify(context.Background(), content, nil)
		if err != nil {
			return err
		}
		return print(answer)
	}
	answer, err := client.Execute(context.Background(), content, args, nil)
	if err != nil {
		return err
	}
	return print(answer)
}

func main() {
	if len(os.Args) < 4 || (os.Args[1] != "verify" && os.Args[1] != "run") {
		fmt.Fprintln(os.Stderr, "usage: client verify HOST:PORT TX.json|- | client run HOST:PORT SCRIPT ARG...")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3], os.Args[4:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
