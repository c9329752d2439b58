#!/bin/bash
set -eu
cat > /app/backup.sh <<'EOF'
#!/bin/bash
set -eu
n=0
while IFS= read -r -d '' file; do
  place="$2/${file#"$1"/}"
  mkdir -p "$(dirname "$place")"
  cp "$file" "$place"
  n=$((n + 1))
done < <(find "$1" -type f -name '*.txt' -print0)
echo "$n"
EOF
chmod +x /app/backup.sh
