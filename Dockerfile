# The command line with the bundled data sets. Nothing needs a network once the image is built:
#   docker build --tag dgpbench .
#   docker run --rm --network none --volume "$PWD/results:/work/results" --user "$(id -u):$(id -g)" \
#     dgpbench run method=sgp dataset=boston budget=smoke
FROM python:3.11-slim
COPY . /source
RUN pip install --no-cache-dir --constraint /source/constraints.txt /source && rm -r /source
# Any user may write here, so that --user can name the owner of the mounted folder.
ENV HOME=/tmp
RUN mkdir /work && chmod 1777 /work
WORKDIR /work
ENTRYPOINT ["dgpbench"]
CMD ["--help"]
