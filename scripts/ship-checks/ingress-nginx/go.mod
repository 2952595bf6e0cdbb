module example.com/ratekeeper-ingress-nginx

go 1.24
