# The contents of the site, from the tables of docs/README.md and of docs/design/README.md. The pages of the design are below its own.
function page(row, folder, indent, title, link) {
  title = row; sub(/^\| \[/, "", title); sub(/\]\(.*/, "", title)
  link = row; sub(/^[^(]*\(/, "", link); sub(/\).*/, "", link)
  print indent "- [" title "](" folder link ")"
}
BEGIN { print "# Summary\n\n[Rouse](README.md)\n[All pages](docs/README.md)" }
FILENAME ~ /design/ { if (/^\| \[/) page($0, "docs/design/", "  "); next }
/^## / { print "\n#" substr($0, 3) "\n" }
/^\| \[/ { page($0, "docs/", "") }
END {
  print "\n# Project\n"
  count = split("ARCHITECTURE ROADMAP CHANGELOG SECURITY CONTRIBUTING MAINTAINERS CODE_OF_CONDUCT", names, " ")
  for (i = 1; i <= count; i++) {
    title = tolower(substr(names[i], 2)); gsub(/_/, " ", title)
    print "- [" substr(names[i], 1, 1) title "](" names[i] ".md)"
  }
  print "- [Release](release/README.md)\n- [Traces of Knative's autoscaler](tests/traces/README.md)\n- [The cluster tool](tests/cluster/README.md)"
}
