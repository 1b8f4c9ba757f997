# The contents of the site, from the table of docs/README.md. What the README.md of a folder lists is below that page.
function page(row, folder, indent, title, link) {
  title = row; sub(/^\| \[/, "", title); sub(/\]\(.*/, "", title)
  link = row; sub(/^[^(]*\(/, "", link); sub(/\).*/, "", link)
  print indent "- [" title "](" folder link ")"
  if (link ~ /README\.md$/) below(folder link)
}
# Rows that lead to a part of a page list no page.
function below(file, folder, row) {
  folder = file; sub(/[^\/]*$/, "", folder)
  while ((getline row < file) > 0)
    if (row ~ /^\| \[[^)#]*\)/) page(row, folder, "  ")
  close(file)
}
BEGIN { print "# Summary\n\n[Rouse](README.md)\n[All pages](docs/README.md)" }
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
